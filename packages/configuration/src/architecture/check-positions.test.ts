import { describe, expect, it } from 'vitest';
import { configure, withFlags } from '../../test/support/configure.js';
import { refusals } from '../../test/support/refusals.js';

refusals(
  [
    ['--rotary-base 5', 1, 'MTL_FLAG_NEEDS', /expected --position-embedding-type rope/],
    [
      '--position-embedding-type rope --rope-scaling-factor 4',
      1,
      'MTL_FLAG_NEEDS',
      /expected --use-rope-scaling/,
    ],
    [
      '--position-embedding-type rope --use-rope-scaling --rotary-seq-len-interpolation-factor 2',
      1,
      'MTL_FLAG_CONFLICT',
      /scaled one way/,
    ],
    [
      '--position-embedding-type rope --kv-channels 5',
      1,
      'MTL_HEADS',
      /heads of 5 features rotates 5.*pass --kv-channels 6/s,
    ],
    ['--rope-scaling-low-freq-factor 2', 1, 'MTL_FLAG_NEEDS', /expected --position-embedding-type rope/],
    [
      '--position-embedding-type rope --rope-scaling-original-max-position-embeddings 16',
      1,
      'MTL_FLAG_NEEDS',
      /expected --use-rope-scaling/,
    ],
    [
      '--position-embedding-type rope --use-rope-scaling --rope-scaling-low-freq-factor 4',
      1,
      'MTL_FLAG_VALUE',
      /low-freq-factor 4 with --rope-scaling-high-freq-factor 4: .*pass --rope-scaling-high-freq-factor 16/s,
    ],
    [
      '--position-embedding-type rope --rotary-scaling-factor 4',
      1,
      'MTL_FLAG_NEEDS',
      /--rotary-scaling-factor 4 has no effect.*expected --position-embedding-type yarn/s,
    ],
    ['--mscale 0.7', 1, 'MTL_FLAG_NEEDS', /expected --position-embedding-type yarn/],
    [
      '--no-yarn-correction-range-round-to-int',
      1,
      'MTL_FLAG_NEEDS',
      /round-to-int false has no effect.*expected --position-embedding-type yarn/s,
    ],
    [
      '--position-embedding-type yarn --use-rope-scaling',
      1,
      'MTL_FLAG_CONFLICT',
      /--position-embedding-type yarn and --use-rope-scaling: angles are scaled one way/,
    ],
    [
      '--position-embedding-type yarn --rotary-seq-len-interpolation-factor 2.5',
      1,
      'MTL_FLAG_CONFLICT',
      /scaled one way/,
    ],
    ['--position-embedding-type yarn --rotary-interleaved', 1, 'MTL_FLAG_CONFLICT', /halves of whole heads/],
    ['--position-embedding-type yarn --rotary-percent 0.5', 1, 'MTL_FLAG_CONFLICT', /halves of whole heads/],
    ['--position-embedding-type yarn --rotary-base 1', 1, 'MTL_FLAG_VALUE', /expected a base above 1/],
    [
      '--position-embedding-type yarn --yarn-beta-slow 64',
      1,
      'MTL_FLAG_VALUE',
      /--yarn-beta-fast 32 with --yarn-beta-slow 64: .*pass --yarn-beta-fast 64/s,
    ],
    [
      '--position-embedding-type yarn --yarn-attention-factor 1.2 --mscale 1',
      1,
      'MTL_FLAG_CONFLICT',
      /queries and keys have one factor/,
    ],
    [
      '--position-embedding-type yarn --kv-channels 5',
      1,
      'MTL_HEADS',
      /heads of 5 features rotates 5.*pass --kv-channels 6/s,
    ],
  ],
  { numAdvised: 5 },
);

it.each(['rope', 'yarn'])('accepts --reset-position-ids alone with %s, and says what it lacks', (type) => {
  const { notices } = configure(withFlags(`--position-embedding-type ${type} --reset-position-ids`));
  expect(
    notices.filter((notice) => notice.includes('--reset-attention-mask keeps documents apart')),
  ).toHaveLength(1);
});

describe('the positions of a model', () => {
  const configureModel = (line: string) => configure(withFlags(line)).model;

  it("have Megatron-LM's numbers with yarn, and no numbers otherwise", () => {
    expect(configureModel('--position-embedding-type yarn')).toMatchObject({
      positionEmbeddingType: 'yarn',
      rotaryScalingFactor: 1,
      yarnOriginalMaxPositionEmbeddings: 4096,
      yarnBetaFast: 32,
      yarnBetaSlow: 1,
      yarnCorrectionRangeRoundToInt: true,
      mscale: 1,
      mscaleAllDim: 0,
    });
    for (const line of [
      '',
      '--position-embedding-type rope',
      '--position-embedding-type rope --use-rope-scaling',
    ]) {
      const stated = Object.entries(configureModel(line)).filter(([, value]) => value !== undefined);
      expect(
        stated.filter(([key]) => /yarn|mscale|rotaryScaling|LowFreq|HighFreq|Original/i.test(key)),
      ).toEqual([]);
    }
  });

  it('have no weights next to a factor of attention', () => {
    const model = configureModel('--position-embedding-type yarn --yarn-attention-factor 1.2');
    expect(model).toMatchObject({ yarnAttentionFactor: 1.2, mscale: undefined, mscaleAllDim: undefined });
  });

  it('state the numbers of Llama 3.1 only where they are others', () => {
    const llama3 = '--position-embedding-type rope --use-rope-scaling';
    const usual = `${llama3} --rope-scaling-low-freq-factor 1 --rope-scaling-high-freq-factor 4 --rope-scaling-original-max-position-embeddings 8192`;
    expect(configureModel(usual)).toEqual(configureModel(llama3));
    expect(configureModel(`${llama3} --rope-scaling-original-max-position-embeddings 16`)).toMatchObject({
      ropeScalingOriginalMaxPositionEmbeddings: 16,
    });
  });

  it.each([
    ['', 4096, []],
    [
      '--yarn-original-max-position-embeddings 16',
      32,
      [/made for 16 positions.*has 32: --rotary-scaling-factor 2 /],
    ],
    ['--yarn-original-max-position-embeddings 16 --rotary-scaling-factor 2', 32, []],
    ['--rotary-scaling-factor 1.5', 8192, [/made for 6144 positions.*has 8192: --rotary-scaling-factor 2 /]],
  ] as const)('are covered by the factor of yarn, or a notice says so: %s', (line, positions, expected) => {
    const flags = `--position-embedding-type yarn --max-position-embeddings ${positions} ${line}`;
    const notices = configure(withFlags(flags)).notices.filter((notice) => notice.includes('yarn'));
    expect(notices).toHaveLength(expected.length);
    for (const [index, pattern] of expected.entries()) expect(notices[index]).toMatch(pattern);
  });
});
