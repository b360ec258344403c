import { describe, expect, it } from 'vitest';
import { flagAliases, flagSchema } from '../../schema/flag-schema.js';
import { findMegatronFlag, judgeMegatronFlag, megatronFlags } from './judge-megatron-flag.js';
import { unsupportedFlags } from './unsupported-flags.js';

describe('the reason of an unsupported Megatron flag', () => {
  it.each([
    ['no-create-attention-mask-in-dataloader', 'compute the attention mask from positions'],
    ['enable-msc', 'never from an object store'],
    ['s3-cache-path', 'never from an object store'],
    ['num-dataset-builder-threads', 'each index is built once'],
    ['no-data-sharding', 'reads its own samples'],
    ['trust-remote-code', 'never run'],
    ['allow-ambiguous-pad-tokens', 'padding is masked by its position'],
    ['dataloader-save', 'a checkpoint holds the position in the data'],
    ['apply-wd-to-qk-layernorm', 'no weight decay'],
    ['decrease-batch-size-if-needed', 'exactly the size'],
    ['eval-micro-batch-size', 'batch sizes of training'],
    ['fp16-lm-cross-entropy', 'loss are always computed in fp32'],
    ['disable-bf16-reduced-precision-matmul', 'matmuls always sum in fp32'],
    ['no-async-tensor-model-parallel-allreduce', 'what overlaps'],
    ['manual-gc-interval', 'no Python'],
    ['te-rng-tracker', 'random numbers'],
    ['init-method-xavier-uniform', 'initial weights are normal'],
    ['use-mup', 'learning rates'],
    ['use-contiguous-buffers-in-local-ddp', 'flat buffers'],
    ['local-rank', 'environment variables'],
    ['high-priority-stream-groups', 'what overlaps'],
    ['save-retain-interval', '--keep-last'],
    ['disable-gloo-process-groups', 'process groups follow'],
    ['error-injection-type', 'by tests only'],
    ['barrier-with-level-1-timing', 'without barriers'],
    ['init-model-with-meta-device', 'its own shards alone'],
    ['ckpt-format', 'there is one format'],
    ['fsdp-double-buffer', 'while the next one is gathered'],
    ['torch-fsdp2-no-reshard-after-forward', 'until two other layers need its memory'],
  ])('is about this flag: %s', (name, reason) => {
    expect(findMegatronFlag(name)!.why).toContain(reason);
  });

  it.each([
    ['activations-checkpoint-method', 'use --recompute-method'],
    ['checkpoint-num-layers', 'use --recompute-num-layers'],
    ['distribute-saved-activations', 'use --sequence-parallel'],
    ['optimizer-cpu-offload', 'use --use-distributed-optimizer'],
    ['pretrained-checkpoint', '--load DIRECTORY --finetune'],
    ['task', 'use mtl eval --task'],
    ['vocab-extra-ids', "tokenizer's file"],
    ['outer-dp-sharding-strategy', 'leave it out'],
    ['fsdp-unit-modules', 'use --use-megatron-fsdp'],
  ])('has the remedy for this flag: %s', (name, remedy) => {
    expect(findMegatronFlag(name)!.remedy).toContain(remedy);
  });

  it.each([
    ['fsdp-double-buffer', [], true],
    ['torch-fsdp2-no-reshard-after-forward', [], true],
    ['init-model-with-meta-device', [], true],
    ['ckpt-format', ['fsdp_dtensor'], true],
    ['outer-dp-sharding-strategy', ['no_shard'], true],
    ['outer-dp-sharding-strategy', ['optim'], false],
  ] as const)('accepts --%s %j with fully sharded parameters: %s', (name, values, isAccepted) => {
    const megatron = findMegatronFlag(name)!;
    const judged = judgeMegatronFlag({ name, megatron, values, where: 'here', valueOfFlag: () => undefined });
    if (isAccepted) expect(judged).toMatch(/ here has no effect: /);
    else expect(judged).toMatchObject({ code: 'MTL_FLAG_UNSUPPORTED', expected: 'no_shard' });
  });

  it('names only flags that exist', () => {
    const known = new Set([...Object.keys(flagSchema.shape), ...Object.keys(flagAliases)]);
    // flags of other programs that the reasons and remedies mention: mtl eval, the programs of mtl data
    // prepare, and node
    const ofOthers = ['task', 'cpu-prof', 'config', 'dry-run'];
    for (const [name, { why, remedy = '' }] of megatronFlags) {
      for (const [, flag] of `${why} ${remedy}`.matchAll(/(?<![\w-])--([a-z][a-z0-9-]*)/g)) {
        const isKnown = known.has(flag!) || ofOthers.includes(flag!) || megatronFlags.has(flag!);
        expect(isKnown, `--${name} speaks of --${flag}`).toBe(true);
      }
    }
  });

  it('is stated once for each flag', () => {
    const names = unsupportedFlags
      .split('\n')
      .filter((line) => line.startsWith(' '))
      .flatMap((line) => line.split(' | ')[0]!.trim().split(' '))
      .map((flag) => flag.split('=')[0]!);
    expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([]);
    expect(new Set(names)).toEqual(new Set(megatronFlags.keys()));
  });
});
