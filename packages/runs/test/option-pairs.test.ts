import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ModelKind } from '@mtl/configuration';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { architectureOptions, lineOf, type Option, outcomeOf } from './support/architecture-options.js';
import { preparedCorpus } from './support/prepared-corpus.js';
import { preparedSentences } from './support/prepared-sentences.js';

const directory = mkdtempSync(join(tmpdir(), 'mtl-option-pairs-'));
afterAll(() => rmSync(directory, { recursive: true }));

interface Pair {
  readonly options: readonly [Option, Option];
  /** True where its step runs on this machine, too, and not only dry. */
  readonly trains: boolean;
}

/** A flag's place in the table, and its values that are tried. */
type NumberedOptions = readonly [index: number, options: readonly Option[]];

/** Returns each value of a flag with each of another one; one of them trains, other values in turn. */
function pairsOf([one, ofOne]: NumberedOptions, [other, ofOther]: NumberedOptions): readonly Pair[] {
  const [first, second] = [(one + other) % ofOne.length, (one + 2 * other) % ofOther.length];
  return ofOne.flatMap((a, index) =>
    ofOther.map((b, at) => ({ options: [a, b] as const, trains: index === first && at === second })),
  );
}

/** Options that each pair refuses: values that no model of these sizes has. */
const neverTrained: Readonly<Record<ModelKind, readonly string[]>> = { gpt: [], bert: [] };

const written = ({ flag, words }: Option): string => [`--${flag}`, ...words].join(' ');

describe.each(['gpt', 'bert'] as const)('pairs of options of the architecture, %s', (kind: ModelKind) => {
  const flags: readonly NumberedOptions[] = [...architectureOptions(kind).entries()];
  const all = flags.flatMap((one, index) => flags.slice(index + 1).flatMap((other) => pairsOf(one, other)));
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

  /** Runs pairs; returns what failed, and the options that no model trained with. */
  async function sweep(pairs: readonly Pair[]) {
    const failures: string[] = [];
    const unused = new Set(pairs.flatMap(({ options }) => options.map(written)));
    for (const { options, trains } of pairs) {
      const outcome = await outcomeOf(lineOf(options, data), { kind, trains });
      if (outcome === 'trains') for (const option of options) unused.delete(written(option));
      if (typeof outcome === 'object') failures.push(`${options.map(written).join(' ')}: ${outcome.failure}`);
    }
    return { failures, unused: [...unused] };
  }

  it('train, or are refused before the first step: a few', async () => {
    expect((await sweep(all.filter((_, index) => index % 300 === 7))).failures).toEqual([]);
  });

  it.runIf(kind === 'gpt')('train, or are refused before the first step: switches with experts', async () => {
    const isSwitch = ({ words }: Option): boolean => words.length === 0;
    const pairs = all
      .filter(({ options: [a, b] }) => {
        const [one, other] = a.flag === 'num-experts' ? [a, b] : [b, a];
        return written(one) === '--num-experts 8' && isSwitch(other) && !other.flag.startsWith('moe');
      })
      .map((pair) => ({ ...pair, trains: true }));
    const { failures, unused } = await sweep(pairs);
    expect(failures).toEqual([]);
    expect(unused).not.toContain('--swiglu');
    expect(unused).not.toContain('--quick-geglu');
  });

  it('train, or are refused before the first step: all', {
    tags: ['whole'],
    timeout: 1_800_000,
  }, async () => {
    const { failures, unused } = await sweep(all);
    expect(failures).toEqual([]);
    // what no model trains with, no pair tests
    expect(unused).toEqual(neverTrained[kind]);
  });
});
