/** The number of colours that all users can distinguish; page.css defines them from `--run-0` on. */
export const numColours = 8;

/** The appearance of a run's curves: a colour, and a dash pattern if there are more runs than colours. */
export interface RunColour {
  readonly colour: number;
  /** The index of the pattern in `dashes`; 0 is a solid line. */
  readonly dash: number;
}

/** The dash patterns: lengths of lines and gaps, in pixels. */
export const dashes: readonly (readonly number[])[] = [[], [8, 4], [2, 3]];

/**
 * Assigns a colour to each run, according to a hash of its name. If an earlier run already has this colour,
 * the new run gets the next colour that the fewest runs have. Colours do not change when runs are shown,
 * added or removed.
 */
export class RunColours {
  readonly #given = new Map<string, RunColour>();
  readonly #uses = new Array<number>(numColours).fill(0);

  /** Assigns colours to new runs. `ids` has the names of the runs, oldest first. */
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

/** Returns the CSS classes of an element with the colour of a run. */
export const formatClass = ({ colour, dash }: RunColour): string => `colour-${colour} dash-${dash}`;

/**
 * Returns the 32-bit FNV-1a hash of `text`, mixed once more, because names of runs often differ only in their
 * last letter.
 */
function computeHash(text: string): number {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(text)) hash = Math.imul(hash ^ byte, 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  return (hash ^ (hash >>> 13)) >>> 0;
}
