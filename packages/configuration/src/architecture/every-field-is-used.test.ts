import { BertStage, GptStage } from '@mtl/models';
import { expect, it } from 'vitest';
import { parseFlags } from '../command-line/parse-flags.js';
import { validateConfiguration } from '../validation/validate-configuration.js';
import type { ModelKind } from './architecture-field.js';
import { listFields } from './list-fields.js';
import { describeBertModel, describeGptModel } from './models-of-configuration.js';

const common = { device: 'cpu', dtype: 'float32', seed: 1 } as const;

/**
 * Command lines of models that together have all features: experts, and rotary position embeddings of every
 * kind.
 */
const lines: Readonly<Record<ModelKind, readonly string[]>> = {
  gpt: [
    '--preset char-10m',
    '--preset char-10m --quick-geglu --disable-bias-linear --num-experts 8 --moe-router-score-function sigmoid ' +
      '--moe-router-enable-expert-bias --moe-router-num-groups 4 --moe-router-group-topk 2 ' +
      '--moe-shared-expert-intermediate-size 64 --moe-shared-expert-gate --moe-expert-capacity-factor 1 ' +
      '--moe-aux-loss-coeff 0.01 --moe-z-loss-coeff 0.001',
    '--preset char-10m --num-experts 8 --moe-router-pre-softmax',
    '--preset char-10m --normalization RMSNorm --qk-layernorm',
    '--preset char-10m --position-embedding-type rope --use-rope-scaling',
    '--preset char-10m --position-embedding-type yarn',
  ],
  bert: ['--preset bert-base', '--preset bert-base --position-embedding-type rope --use-rope-scaling'],
};

/** A property that no model reads. If the test reports that a model reads it, the test itself is wrong. */
const unused = { key: 'dummyTracks' };

/**
 * Builds a stage of a model without allocating memory, and returns the keys of the configuration that the
 * building reads.
 */
function keysRead(kind: ModelKind): ReadonlySet<string> {
  const read = new Set<string>();
  const watched = <Model extends object>(model: Model): Model =>
    new Proxy(Object.assign(model, { [unused.key]: 1 }), {
      get: (target, key) => {
        read.add(String(key));
        return Reflect.get(target, key);
      },
    });
  for (const line of lines[kind]) {
    const data = kind === 'gpt' ? ['--data-path', 'bundled'] : [];
    const { model, ...others } = validateConfiguration(
      parseFlags([...line.split(' '), ...data], { model: kind }),
    );
    if (kind === 'gpt') new GptStage({ ...common, model: watched(describeGptModel(model, 256)) });
    else new BertStage({ ...common, model: watched(describeBertModel({ model, ...others }, 256)) });
  }
  return read;
}

it.each(['gpt', 'bert'] as const)('is used by its models: a flag of the architecture, %s', (kind) => {
  const read = keysRead(kind);
  const isUnused = ({ key }: { readonly key: string }): boolean => !read.has(key);
  expect(
    listFields(kind)
      .filter(([, field]) => isUnused(field))
      .map(([name]) => name),
  ).toEqual([]);
  expect(isUnused(unused)).toBe(true);
});
