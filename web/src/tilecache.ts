// Tiles of a timeline, each drawn once on a canvas of its own, which frames then copy.

import { tile } from "./api";
import type { Timeline } from "./api";
import { colour } from "./colours";

export interface Cells { canvas: HTMLCanvasElement; cells: Uint32Array; counts: Uint32Array; types: Uint8Array }

const KEPT = 256;

/** Read tiles as they are needed; `ready` is called when one has come. */
export class TileCache {
  private tiles = new Map<string, Cells | null>();

  constructor(private id: string, private about: Timeline, private lane: number, private ready: () => void) {}

  /** Find a tile, or ask for it; null while it is on its way. */
  get(level: number, place: number): Cells | null {
    const key = `${level}/${place}`;
    const found = this.tiles.get(key);
    if (found === undefined) {
      this.tiles.set(key, null);
      if (this.tiles.size > KEPT) this.tiles.delete(this.tiles.keys().next().value as string);
      void this.read(level, place, key);
      return null;
    }
    return found;
  }

  private async read(level: number, place: number, key: string): Promise<void> {
    try {
      const data = await tile(this.id, level, place);
      const count = new DataView(data).getUint32(0, true);
      const cells = new Uint32Array(data.slice(4, 4 + 4 * count));
      const counts = new Uint32Array(data.slice(4 + 4 * count, 4 + 8 * count));
      const types = new Uint8Array(data.slice(4 + 8 * count));
      this.tiles.set(key, { canvas: this.draw(cells, counts, types), cells, counts, types });
      this.ready();
    } catch {
      this.tiles.delete(key);
    }
  }

  private draw(cells: Uint32Array, counts: Uint32Array, types: Uint8Array): HTMLCanvasElement {
    const bins = this.about.bins, lane = this.lane;
    const canvas = document.createElement("canvas");
    canvas.width = bins;
    canvas.height = Math.max(1, this.about.lanes.length * lane);
    const pen = canvas.getContext("2d")!;
    const colours = this.about.types.map((_, n) => colour(n));
    let most = 1;
    for (const count of counts) most = Math.max(most, count);
    for (let n = 0; n < cells.length; n++) {
      const row = Math.floor(cells[n] / bins), column = cells[n] % bins;
      const part = most === 1 ? 0.55 : 0.15 + 0.85 * (counts[n] / most);
      const height = Math.max(3, Math.round((lane - 15) * part));
      pen.fillStyle = colours[types[n]];
      pen.fillRect(column, row * lane + lane - 3 - height, 1, height);
    }
    return canvas;
  }
}
