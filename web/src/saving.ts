// Pictures as files: SVG with the colours of the theme written out, and PNG drawn from it.

import { button, download } from "./dom";

const COPIED = ["fill", "stroke", "stroke-width", "font-size", "font-family", "font-weight", "opacity", "stroke-dasharray"];

/** Copy a picture with its styles inside, so that it looks the same everywhere. */
export function standalone(picture: SVGElement): SVGElement {
  const copy = picture.cloneNode(true) as SVGElement;
  const from = [picture, ...picture.querySelectorAll("*")], to = [copy, ...copy.querySelectorAll("*")];
  from.forEach((one, n) => {
    const style = getComputedStyle(one);
    for (const name of COPIED) to[n].setAttribute(name, style.getPropertyValue(name));
    to[n].removeAttribute("class");
  });
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  const box = picture.getBoundingClientRect();
  copy.setAttribute("width", String(Math.round(box.width)));
  copy.setAttribute("height", String(Math.round(box.height)));
  return copy;
}

function svgBlob(picture: SVGElement): Blob {
  return new Blob([new XMLSerializer().serializeToString(standalone(picture))], { type: "image/svg+xml" });
}

async function pngBlob(picture: SVGElement): Promise<Blob> {
  const image = new Image();
  const address = URL.createObjectURL(svgBlob(picture));
  image.src = address;
  await image.decode();
  URL.revokeObjectURL(address);
  const canvas = document.createElement("canvas");
  canvas.width = image.width * 2;
  canvas.height = image.height * 2;
  const pen = canvas.getContext("2d")!;
  pen.fillStyle = getComputedStyle(document.body).backgroundColor;
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob((blob) => done(blob!), "image/png"));
}

/** Make the buttons that save a picture. */
export function saveButtons(name: string, picture: () => SVGElement): HTMLElement[] {
  return [
    button("SVG", () => download(`${name}.svg`, svgBlob(picture())), { title: "Save the picture as SVG" }),
    button("PNG", async () => download(`${name}.png`, await pngBlob(picture())), { title: "Save the picture as PNG" }),
  ];
}
