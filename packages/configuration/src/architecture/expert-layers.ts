/**
 * Which layers have experts, as --moe-layer-freq has it: every Nth from the first on, or for each layer 1
 * where it has experts and 0 where not.
 */
export type ExpertLayers = number | readonly number[];

/** More layers than a model has: `[1]*99999999` is a mistake, and would take all memory. */
const mostLayers = 10_000;

/** How `layersText` spells its lists. */
export const layersPattern = /^([1-9]\d*|\[[01](,[01])*\](\*\d+)?(\+\[[01](,[01])*\](\*\d+)?)*)$/;

/**
 * Reads a number, or a list as Python writes it, of 0 and 1 in brackets, repeated by `*`, joined by `+`, and
 * with parentheses: `([0]*3+[1]*58)`, `[0,1]*2`. Nothing else is evaluated.
 *
 * @returns undefined for any other text, for no layer, and for more than 10,000
 */
export function readExpertLayers(text: string): ExpertLayers | undefined {
  const words = text.match(/\d+|\S/g) ?? [];
  if (words.length === 1) {
    const number = Number(words[0]);
    return Number.isSafeInteger(number) && number > 0 ? number : undefined;
  }
  const reader = new ListReader(words);
  const layers = reader.sum();
  return reader.isAtEnd && layers !== undefined && layers.length > 0 ? layers : undefined;
}

/** Reads words from left to right; undefined where they are no list. */
class ListReader {
  readonly #words: readonly string[];
  #at = 0;

  constructor(words: readonly string[]) {
    this.#words = words;
  }

  get isAtEnd(): boolean {
    return this.#at === this.#words.length;
  }

  /** `product + product ...` */
  sum(): readonly number[] | undefined {
    let sum = this.#product();
    while (sum !== undefined && this.#takes('+')) {
      const next = this.#product();
      sum = next === undefined || sum.length + next.length > mostLayers ? undefined : [...sum, ...next];
    }
    return sum;
  }

  /** `list * N ...` or `N * list ...` */
  #product(): readonly number[] | undefined {
    let times = this.#number();
    if (times !== undefined && !this.#takes('*')) return undefined;
    const list = this.#list();
    if (list === undefined) return undefined;
    times ??= 1;
    while (this.#takes('*')) {
      const factor = this.#number();
      if (factor === undefined) return undefined;
      times *= factor;
    }
    if (list.length * times > mostLayers) return undefined;
    return Array.from({ length: list.length * times }, (_, index) => list[index % list.length]!);
  }

  /** `[0, 1]`, or a sum in parentheses. */
  #list(): readonly number[] | undefined {
    if (this.#takes('(')) {
      const sum = this.sum();
      return this.#takes(')') ? sum : undefined;
    }
    if (!this.#takes('[')) return undefined;
    const list: number[] = [];
    while (!this.#takes(']')) {
      const number = this.#number();
      if (number !== 0 && number !== 1) return undefined;
      list.push(number);
      if (!this.#takes(',') && this.#words[this.#at] !== ']') return undefined;
    }
    return list;
  }

  #number(): number | undefined {
    const word = this.#words[this.#at] ?? '';
    if (!/^\d+$/.test(word)) return undefined;
    this.#at += 1;
    return Number(word);
  }

  #takes(word: string): boolean {
    const isThere = this.#words[this.#at] === word;
    if (isThere) this.#at += 1;
    return isThere;
  }
}

/** The one text for it, which `readExpertLayers` and Megatron-LM read: `2`, `[0,1]*12`, `[0]*3+[1]*58`. */
export function expertLayersText(layers: ExpertLayers): string {
  if (typeof layers === 'number') return String(layers);
  const period = periodOf(layers);
  if (period < layers.length) return repeated(layers.slice(0, period), layers.length / period);
  // runs of one value; neighbours that do not repeat share brackets
  const parts: { list: number[]; times: number }[] = [];
  for (const layer of layers) {
    const last = parts.at(-1);
    if (last?.list.length === 1 && last.list[0] === layer) last.times += 1;
    else parts.push({ list: [layer], times: 1 });
  }
  const joined: typeof parts = [];
  for (const part of parts) {
    const last = joined.at(-1);
    if (last?.times === 1 && part.times === 1) last.list.push(...part.list);
    else joined.push(part);
  }
  return joined.map(({ list, times }) => repeated(list, times)).join('+');
}

const repeated = (list: readonly number[], times: number): string =>
  `[${list.join()}]${times === 1 ? '' : `*${times}`}`;

/** The length of the shortest beginning that the list repeats. */
function periodOf(list: readonly number[]): number {
  const lengths = Array.from({ length: list.length }, (_, index) => index + 1);
  return lengths.find(
    (length) => list.length % length === 0 && list.every((value, index) => value === list[index % length]),
  )!;
}
