// Bundles the page into the package; the result is committed, so that a clone needs no Node.
import { build } from "esbuild";
import { copyFile } from "node:fs/promises";

const target = "../src/cepheid/interfaces/web/static";
await build({
  entryPoints: ["src/main.ts", "src/style.css"],
  outdir: target,
  entryNames: "[name]",
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  legalComments: "linked",
});
await copyFile("src/index.html", `${target}/index.html`);
