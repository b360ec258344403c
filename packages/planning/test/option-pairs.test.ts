import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ModelKind } from '@mtl/configuration';
import { preparedCorpus, preparedSentences } from '@mtl/runs/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { architectureOptions, findOutcome, formatLine, type Option } from './support/architecture-options.js';

const directory = mkdtempSync(join(tmpdir(), 'mtl-option-pairs-'));
afterAll(() => rmSync(directory, { recursive: true }));

interface Pair {
  readonly options: readonly [Option, Option];
  /** True if its step also runs for real on this machine, not only as a dry run. */
  readonly trains: boolean;
}

/** The index of a flag in the table, and its tested values. */
type NumberedOptions = readonly [index: number, options: readonly Option[]];

const isNumber = ({ words: [first] }: Option): boolean =>
  first !== undefined && Number.isFinite(Number(first));

/**
 * Returns pairs of the values of two flags: all combinations for choices, and for numbers each value with one
 * value of the other flag in turn. One of the pairs trains.
 */
function listPairs([one, ofOne]: NumberedOptions, [other, ofOther]: NumberedOptions): readonly Pair[] {
  const isInTurn = ofOne.some(isNumber) || ofOther.some(isNumber);
  const pairs = isInTurn
    ? Array.from({ length: Math.max(ofOne.length, ofOther.length) }, (_, index) => [
        ofOne[index % ofOne.length]!,
        ofOther[(index + one) % ofOther.length]!,
      ])
    : ofOne.flatMap((a) => ofOther.map((b) => [a, b]));
  const trained = (one + other) % pairs.length;
  return pairs.map((pair, index) => ({ options: pair as [Option, Option], trains: index === trained }));
}

/** Flags that no model trains with, such as a BERT whose samples are longer than the tested positions. */
const neverTrained: Readonly<Record<ModelKind, readonly string[]>> = {
  gpt: [],
  bert: ['max-position-embeddings', 'model-blocks'],
};

const written = ({ flag, words }: Option): string => [`--${flag}`, ...words].join(' ');

describe.each(['gpt', 'bert'] as const)('pairs of options of the architecture, %s', (kind: ModelKind) => {
  const flags: readonly NumberedOptions[] = [...architectureOptions(kind).entries()];
  const all = flags.flatMap((one, index) => flags.slice(index + 1).flatMap((other) => listPairs(one, other)));
  let data: Readonly<Record<string, string>>;

  beforeAll(async () => {
    const prepared = await (kind === 'gpt' ? preparedCorpus(directory) : preparedSentences(directory));
    const { dataPath, tokenizerType, vocabFile } = prepared.data!;
    data = {
      'data-path': dataPath![0]!,
      'tokenizer-type': tokenizerType!,
      // long enough that tokens are masked in every batch
      ...(vocabFile === undefined
        ? {}
        : { 'vocab-file': vocabFile, 'seq-length': '32', 'max-position-embeddings': '32' }),
    };
  });

  /** Runs pairs; returns the failures, and the options that a model trained with. */
  async function sweep(pairs: readonly Pair[]) {
    const failures: string[] = [];
    const trained = new Set<string>();
    for (const { options, trains } of pairs) {
      const outcome = await findOutcome(formatLine(options, data), { kind, trains });
      if (outcome === 'trains') for (const option of options) trained.add(written(option));
      if (typeof outcome === 'object') failures.push(`${options.map(written).join(' ')}: ${outcome.failure}`);
    }
    return { failures, trained };
  }

  it('train, or are refused before the first step: a few', async () => {
    expect((await sweep(all.filter((_, index) => index % 300 === 7))).failures).toEqual([]);
  });

  // a BERT has no experts
  const itHasExperts = kind === 'gpt' ? it : undefined;
  itHasExperts?.('train, or are refused before the first step: switches with experts', async () => {
    const isSwitch = ({ words }: Option): boolean => words.length === 0;
    const pairs = all
      .filter(({ options: [a, b] }) => {
        const [one, other] = a.flag === 'num-experts' ? [a, b] : [b, a];
        return written(one) === '--num-experts 8' && isSwitch(other) && !other.flag.startsWith('moe');
      })
      .map((pair) => ({ ...pair, trains: true }));
    const { failures, trained } = await sweep(pairs);
    expect(failures).toEqual([]);
    expect([...trained]).toEqual(expect.arrayContaining(['--swiglu', '--quick-geglu', '--squared-relu']));
  });

  it('train, or are refused before the first step: all', {
    tags: ['whole'],
    timeout: 1_800_000,
  }, async () => {
    const { failures, trained } = await sweep(all);
    expect(failures).toEqual([]);
    // no pair tests a flag that no model trains with
    const flagsOfTrained = new Set([...trained].map((option) => option.split(' ')[0]));
    const unused = flags
      .map(([, [option]]) => option!.flag)
      .filter((flag) => !flagsOfTrained.has(`--${flag}`));
    expect(unused).toEqual(neverTrained[kind]);
  });
});
