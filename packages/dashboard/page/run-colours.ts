/** The number of colours that all readers can distinguish; see `--run-0` and following in page.css. */
export const numColours = 8;

/** The look of the curves of a run: a colour, and also dashes if there are more runs than colours. */
export interface RunColour {
  readonly colour: number;
  /** 0 for a solid line, then one kind of dashes after another. */
  readonly dash: number;
}

/** The patterns of `RunColour.dash`: lengths of lines and gaps, in pixels. */
export const dashes: readonly (readonly number[])[] = [[], [8, 4], [2, 3]];

/**
 * Assigns each run the colour given by the hash of its name. If an older run already has this colour, the run
 * gets the next colour among the least used. A run keeps its colour when other runs are shown, come or go.
 */
export class RunColours {
  readonly #given = new Map<string, RunColour>();
  readonly #uses = new Array<number>(numColours).fill(0);

  /** `ids`: oldest first; runs that have a colour keep it. */
  add(ids: readonly string[]): void {
    for (const id of ids) if (!this.#given.has(id)) this.#given.set(id, this.#next(id));
  }

  of(id: string): RunColour {
    return this.#given.get(id) ?? { colour: 0, dash: 0 };
  }

  #next(id: string): RunColour {
    const least = Math.min(...this.#uses);
    let colour = computeHash(id) % numColours;
    while (this.#uses[colour] !== least) colour = (colour + 1) % numColours;
    this.#uses[colour]! += 1;
    return { colour, dash: least % dashes.length };
  }
}

/** The classes of an element in the colour of a run. */
export const formatClass = ({ colour, dash }: RunColour): string => `colour-${colour} dash-${dash}`;

/** FNV-1a of 32 bits, its bits mixed once more: names often differ in their last letter only. */
function computeHash(text: string): number {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(text)) hash = Math.imul(hash ^ byte, 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  return (hash ^ (hash >>> 13)) >>> 0;
}
