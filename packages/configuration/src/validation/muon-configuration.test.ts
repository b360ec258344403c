import { expect, it } from 'vitest';
import { parseFlags } from '../command-line/parse-flags.js';
import { validateConfiguration } from './validate-configuration.js';

const validated = (line: string) =>
  validateConfiguration(
    parseFlags(
      line.split(' ').filter((word) => word !== ''),
      { model: 'gpt' },
    ),
    {
      worldSize: 1,
    },
  );

it("has Megatron-LM's defaults", () => {
  expect(validated('--preset gpt2-4m --optimizer muon').optimizer.muon).toEqual({
    momentum: 0.9,
    nesterov: false,
    scaleMode: 'spectral',
    extraScaleFactor: 1,
    coefficientType: 'quintic',
    numSteps: 5,
    splitQkv: true,
  });
});

it('reads every flag', () => {
  const line =
    '--preset gpt2-4m --optimizer muon --muon-momentum 0.95 --muon-use-nesterov --muon-scale-mode shape_scaling ' +
    '--muon-extra-scale-factor 0.2 --muon-coefficient-type simple --muon-num-ns-steps 7 --muon-no-split-qkv ' +
    '--muon-fp32-matmul-prec medium --muon-scalar-optimizer adam';
  const { optimizer, notices } = validated(line);
  expect(optimizer.muon).toEqual({
    momentum: 0.95,
    nesterov: true,
    scaleMode: 'shape_scaling',
    extraScaleFactor: 0.2,
    coefficientType: 'simple',
    numSteps: 7,
    splitQkv: false,
    dtype: 'bfloat16',
  });
  expect(notices.filter((notice) => notice.includes('without --optimizer'))).toEqual([]);
});

it("takes Megatron-LM's old name of Muon with the distributed optimizer", () => {
  const { optimizer, parallel, flags } = validated('--preset gpt2-4m --optimizer dist_muon');
  expect(optimizer.muon).toMatchObject({ coefficientType: 'quintic' });
  expect(parallel.useDistributedOptimizer).toBe(true);
  // checkpoints store the flags in this form
  expect(flags).toMatchObject({ optimizer: 'muon', 'use-distributed-optimizer': true });
  const other = '--preset gpt2-4m --optimizer dist_muon --no-use-distributed-optimizer';
  expect(() => validated(other)).toThrow(expect.objectContaining({ code: 'MTL_FLAG_CONFLICT' }));
});

it('refuses updates that depend on the layout', () => {
  expect(() => validated('--preset gpt2-4m --optimizer muon --muon-tp-mode blockwise')).toThrow(
    expect.objectContaining({ code: 'MTL_MUON_TP_MODE', remedy: 'leave --muon-tp-mode out' }),
  );
});

it('says what has no effect', () => {
  const { optimizer, notices } = validated('--preset gpt2-4m --muon-momentum 0.95');
  expect(optimizer.muon).toBeUndefined();
  expect(notices).toContain('--muon-momentum has no effect without --optimizer muon');
  expect(validated('--preset gpt2-4m --optimizer muon --muon-tp-mode distributed').notices).toContain(
    '--muon-tp-mode distributed runs as duplicated, which gives the same update',
  );
});
