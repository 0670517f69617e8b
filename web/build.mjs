// Bundles the page into the package; the result is committed, so that a clone needs no Node.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { copyFile, readdir, readFile, writeFile } from "node:fs/promises";

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

// A test compares these digests, so that neither sources nor the bundle change alone.
async function digests(folder, names) {
  const found = names.sort().map(async (name) => [name, createHash("sha256").update(await readFile(`${folder}/${name}`)).digest("hex")]);
  return Object.fromEntries(await Promise.all(found));
}
const sources = [...(await readdir("src")).map((name) => `src/${name}`), "build.mjs", "package-lock.json", "package.json", "tsconfig.json"];
const told = { sources: await digests(".", sources), bundle: await digests(target, await readdir(target)) };
await writeFile("bundle.json", `${JSON.stringify(told, null, 2)}\n`);
