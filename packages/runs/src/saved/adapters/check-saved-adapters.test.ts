import type { Checkpoint } from '@mtl/checkpoint';
import { describe, expect, it } from 'vitest';
import { checkSavedAdapters } from './check-saved-adapters.js';

const weight = 'decoder.layers.0.mlp.linear_fc2.weight';
const adapter = (layer: string): string[] => [
  `decoder.layers.0.${layer}.lora_a.weight`,
  `decoder.layers.0.${layer}.lora_b.weight`,
];
const [second, qkv] = [adapter('mlp.linear_fc2'), adapter('self_attention.linear_qkv')];

function check(saved: readonly string[], wanted: readonly string[], { finetune = false } = {}): void {
  const states = saved.map((name) => `optimizer.exp_avg.${name}`);
  // only the names of tensors are read, so the tensors are empty objects
  const tensors = new Map([weight, ...saved, ...states].map((name) => [name, {}]));
  const checkpoint = { path: 'runs/a', tensors } as unknown as Checkpoint;
  checkSavedAdapters(checkpoint, { parameterNames: [weight, ...wanted], finetune });
}

describe('checkSavedAdapters', () => {
  it('accepts the same adapters, none in both, and a new run that begins with some', () => {
    for (const names of [[], second, [...second, ...qkv]]) {
      for (const finetune of [false, true]) check(names, names, { finetune });
    }
    check([], second, { finetune: true });
  });

  it.each([
    [second, [], false, 'which this run would lose', /--lora-rank and the other flags.*mtl convert/],
    [second, [], true, 'which this run would lose', /--lora-rank and the other flags.*mtl convert/],
    [[], second, false, 'has no adapters', /--finetune/],
    [second, qkv, false, `other layers: ${second[0]}`, /--lora-targets/],
    [second, [...second, ...qkv], true, `other layers: not ${qkv[0]}`, /--lora-targets/],
  ])('refuses %j where %j are wanted, finetune %s', (saved, wanted, finetune, problem, remedy) => {
    expect(() => check(saved, wanted, { finetune })).toThrow(
      expect.objectContaining({
        code: 'MTL_CHECKPOINT_LORA',
        message: expect.stringContaining(problem),
        remedy: expect.stringMatching(remedy),
        exitCode: 2,
      }),
    );
  });
});
