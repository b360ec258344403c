import type { LayerList } from '@mtl/models';
import * as z from 'zod';
import { patternedText } from '../flags/flag-kinds.js';
import type { FieldConversion } from './architecture-field.js';

/**
 * The longest list of layers, which exceeds every model's number of layers. Without this limit, a mistake
 * such as `[1]*99999999` would exhaust memory.
 */
const mostLayers = 10_000;

/** Matches the lists that `layerListText` writes. */
export const layersPattern = /^([1-9]\d*|\[[01](,[01])*\](\*\d+)?(\+\[[01](,[01])*\](\*\d+)?)*)$/;

/**
 * Parses a number, or a list in Python's notation: 0 and 1 in brackets, repeated by `*`, joined by `+`, and
 * with parentheses, such as `([0]*3+[1]*58)` or `[0,1]*2`. Other expressions are not evaluated.
 *
 * @returns undefined for any other string, for an empty list, and for more than 10,000 layers
 */
export function readLayerList(text: string): LayerList | undefined {
  const words = text.match(/\d+|\S/g) ?? [];
  if (words.length === 1) {
    const number = Number(words[0]);
    return Number.isSafeInteger(number) && number > 0 ? number : undefined;
  }
  const reader = new ListReader(words);
  const layers = reader.sum();
  return reader.isAtEnd && layers !== undefined && layers.length > 0 ? layers : undefined;
}

/** Parses a list from left to right. The methods return undefined for a string that is not a list. */
class ListReader {
  readonly #words: readonly string[];
  #at = 0;

  constructor(words: readonly string[]) {
    this.#words = words;
  }

  get isAtEnd(): boolean {
    return this.#at === this.#words.length;
  }

  /** Parses `product + product ...`. */
  sum(): readonly number[] | undefined {
    let sum = this.#product();
    while (sum !== undefined && this.#takes('+')) {
      const next = this.#product();
      sum = next === undefined || sum.length + next.length > mostLayers ? undefined : [...sum, ...next];
    }
    return sum;
  }

  /** Parses `list * N ...` or `N * list ...`. */
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

  /** Parses `[0, 1]`, or a sum in parentheses. */
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

/**
 * Returns the canonical notation of a set of layers, which `readLayerList` and Megatron-LM can parse: `2`,
 * `[0,1]*12`, `[0]*3+[1]*58`.
 */
export function layerListText(layers: LayerList): string {
  if (typeof layers === 'number') return String(layers);
  const period = findPeriod(layers);
  if (period < layers.length) return repeated(layers.slice(0, period), layers.length / period);
  // a value that repeats becomes one repeated list; consecutive values that do not repeat become one list in
  // brackets
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

/** Returns the length of the shortest prefix that yields the whole list when repeated. */
function findPeriod(list: readonly number[]): number {
  const lengths = Array.from({ length: list.length }, (_, index) => index + 1);
  return lengths.find(
    (length) => list.length % length === 0 && list.every((value, index) => value === list[index % length]),
  )!;
}

/**
 * Returns the canonical notation of a list of layers. Returns any other value unchanged, so that the schema
 * rejects it.
 */
function canonicalLayers(value: unknown): unknown {
  const isList = Array.isArray(value) && value.every((layer) => layer === 0 || layer === 1);
  if (isList && value.length > 0) return layerListText(value as readonly number[]);
  const layers = typeof value === 'string' ? readLayerList(value) : undefined;
  return layers === undefined ? [value] : layerListText(layers);
}

/** Makes a flag for a set of layers: every Nth layer, or a list with 0 or 1 for each layer. */
export const layerList = (description: string, options: { readonly defaultText?: string } = {}) =>
  patternedText(description, {
    pattern: layersPattern,
    placeholder: 'N|LIST',
    expected: 'a number, or a list of 0 and 1 such as [0,1]*12 or ([0]*3+[1]*58)',
    canonical: canonicalLayers,
    ...options,
  });

/** The conversion between a flag made by `layerList` and the value in a model's configuration. */
export const layerListConversion = {
  asModel: (text: unknown) => readLayerList(text as string),
  asFlag: (layers: unknown) => layerListText(layers as LayerList),
  saved: z.union([z.int().min(1), z.array(z.literal([0, 1])).min(1)]),
} as const satisfies FieldConversion;
