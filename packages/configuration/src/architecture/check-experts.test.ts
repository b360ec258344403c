import { expect, it } from 'vitest';
import { catchError, configure, withFlags } from '../../test/support/configure.js';
import { refusals } from '../../test/support/refusals.js';

const listNotices = (line: string): readonly string[] =>
  configure(withFlags(line)).notices.filter((text) => /moe|expert/.test(text));

it('fills in what a model with experts has by default, and nothing of one without', () => {
  const { model } = configure(withFlags('--num-experts 8'));
  expect(model).toMatchObject({
    numExperts: 8,
    moeLayerFreq: 1,
    moeFfnHiddenSize: 256,
    moeRouterTopk: 2,
    moeRouterScoreFunction: 'softmax',
    moeRouterPreSoftmax: false,
    moeRouterEnableExpertBias: false,
    moeRouterLoadBalancingType: ['aux_loss'],
    moeAuxLossCoeff: [0],
    moeSharedExpertGate: false,
  });
  const absent = [
    ...['moeRouterTopkScalingFactor', 'moeRouterNumGroups', 'moeRouterGroupTopk', 'moeZLossCoeff'],
    ...['moeSharedExpertIntermediateSize', 'moeExpertCapacityFactor', 'quickGeglu', 'gluLinearOffset'],
  ];
  expect(Object.entries(model).filter(([key, value]) => absent.includes(key) && value !== undefined)).toEqual(
    [],
  );
  const dense = configure(withFlags('')).model;
  const stated = Object.entries(dense).filter(([, value]) => value !== undefined);
  expect(stated.filter(([key]) => /^moe|expert|geglu|clamp|glu/i.test(key)).map(([key]) => key)).toEqual([
    'swiglu',
  ]);
});

it('takes the width of an expert from a dense layer', () => {
  const readWidth = (line: string) => configure(withFlags(`--num-experts 8 ${line}`)).model.moeFfnHiddenSize;
  expect(readWidth('--ffn-hidden-size 96')).toBe(96);
  expect(readWidth('--ffn-hidden-size 96 --moe-ffn-hidden-size 32')).toBe(32);
  expect(readWidth('--swiglu')).toBe(128);
});

it.each<[string, unknown]>([
  ['2', 2],
  ['([0]*3+[1])', [0, 0, 0, 1]],
  ['[0,1]*2', [0, 1, 0, 1]],
])('knows which layers have experts: --moe-layer-freq %s', (text, layers) => {
  const { model } = configure(withFlags(`--num-experts 8 --moe-layer-freq ${text}`));
  expect(model.moeLayerFreq).toEqual(layers);
});

it.each<[string, string, unknown]>([
  ['--num-experts 0', 'numExperts', undefined],
  ['--num-experts 8 --moe-expert-capacity-factor -1', 'moeExpertCapacityFactor', undefined],
  ['--num-experts 8 --moe-expert-capacity-factor 1.25', 'moeExpertCapacityFactor', 1.25],
  ['--num-experts 8 --moe-router-topk-scaling-factor 0', 'moeRouterTopkScalingFactor', undefined],
  ['--num-experts 8 --moe-z-loss-coeff 0', 'moeZLossCoeff', undefined],
  ['--swiglu --glu-linear-offset 0', 'gluLinearOffset', undefined],
  ['--swiglu --glu-linear-offset -0.5', 'gluLinearOffset', -0.5],
  ['--quick-geglu', 'quickGeglu', true],
  ['--no-quick-geglu', 'quickGeglu', undefined],
])('reads %s', (line, key, value) => {
  expect((configure(withFlags(line)).model as object as Record<string, unknown>)[key]).toBe(value);
});

it('says what depends on how the batch is split', () => {
  expect(listNotices('--num-experts 8')).toEqual([]);
  expect(listNotices('--num-experts 8 --moe-aux-loss-coeff 0')).toEqual([]);
  const aux = expect.stringMatching(
    /aux_loss depends on how the batch is split over micro-batches and data-parallel ranks; seq_aux_loss does not$/,
  );
  expect(listNotices('--num-experts 8 --moe-aux-loss-coeff 0.01')).toEqual([aux]);
  const two = '--num-experts 8 --moe-router-load-balancing-type seq_aux_loss aux_loss --moe-aux-loss-coeff';
  expect(listNotices(`${two} 0.01 0.01`)).toEqual([aux]);
  expect(listNotices(`${two} 0.01 0`)).toEqual([]);
  expect(listNotices('--num-experts 8 --moe-expert-capacity-factor 1')).toEqual([
    expect.stringMatching(/^--moe-expert-capacity-factor: which tokens are dropped depends on how the batch/),
  ]);
});

it('says what has no effect', () => {
  expect(listNotices('--num-experts 8 --moe-token-drop-policy position')).toEqual([
    '--moe-token-drop-policy has no effect without --moe-expert-capacity-factor',
  ]);
  expect(listNotices('--num-experts 8 --moe-router-pre-softmax --moe-router-score-function sigmoid')).toEqual(
    ['--moe-router-pre-softmax has no effect with --moe-router-score-function sigmoid'],
  );
  const none = '--num-experts 8 --moe-router-load-balancing-type none --moe-aux-loss-coeff';
  expect(listNotices(`${none} 0.1`)).toEqual([expect.stringMatching(/-coeff has no effect with .* none$/)]);
  expect(listNotices(`${none} 0`)).toEqual([]);
  expect(
    listNotices('--num-experts 0 --moe-router-topk 4 --no-moe-shared-expert-gate --moe-layer-freq 1'),
  ).toEqual(['without experts no effect: --moe-layer-freq, --moe-router-topk']);
});

it('writes a list that has the number of layers', () => {
  const { remedy } = catchError(withFlags('--num-experts 8 --moe-layer-freq [0,1]'));
  const list = /"(.*)"/.exec(remedy!)![1];
  expect(configure(withFlags(`--num-experts 8 --moe-layer-freq ${list}`)).model.moeLayerFreq).toEqual([
    0, 1, 1, 1,
  ]);
});

const bias = '--moe-router-enable-expert-bias';

refusals(
  [
    ['--moe-router-topk 4', 1, 'MTL_FLAG_NEEDS', /--moe-router-topk 4 is of experts.*expected --num-experts/],
    ['--num-experts -1', 1, 'MTL_FLAG_VALUE', /expected a whole number of 1 or more, or 0 for none/],
    ['--num-experts 8 --moe-layer-freq [0,1]', 1, 'MTL_EXPERTS', /list of 2 layers, and --num-layers 4/],
    ['--num-experts 8 --moe-layer-freq [0]*4', 1, 'MTL_EXPERTS', /no layer has experts/],
    [
      '--num-experts 8 --moe-layer-freq [2]',
      1,
      'MTL_FLAG_VALUE',
      /expected a number, or a list of 0 and 1 such/,
    ],
    ['--num-experts 8 --moe-layer-freq [1]*99999', 1, 'MTL_FLAG_VALUE', /a list of 0 and 1/],
    ['--num-experts 8 --moe-router-group-topk 2', 1, 'MTL_FLAG_NEEDS', /expected --moe-router-num-groups/],
    ['--num-experts 8 --moe-router-num-groups 2', 1, 'MTL_FLAG_NEEDS', /expected --moe-router-group-topk/],
    [
      '--num-experts 8 --moe-router-num-groups 3 --moe-router-group-topk 1',
      1,
      'MTL_EXPERTS',
      /--moe-router-num-groups 3 does not divide --num-experts 8; expected 2 or 4/,
    ],
    [
      '--num-experts 8 --moe-router-num-groups 2 --moe-router-group-topk 3',
      1,
      'MTL_EXPERTS',
      /--moe-router-group-topk 3 is more than --moe-router-num-groups 2; expected 2/,
    ],
    [
      '--num-experts 8 --moe-router-topk 9',
      1,
      'MTL_EXPERTS',
      /topk 9 is more than --num-experts 8; expected at most 8/,
    ],
    ['--num-experts 1', 1, 'MTL_EXPERTS', /--moe-router-topk 2 \(default\) is more than --num-experts 1/],
    [
      '--num-experts 8 --moe-router-num-groups 4 --moe-router-group-topk 1 --moe-router-topk 3',
      1,
      'MTL_EXPERTS',
      /3 is more than the 2 experts of the 1 groups that a token uses; expected at most 2/,
    ],
    [
      '--num-experts 8 --moe-router-num-groups 4 --moe-router-group-topk 3 --moe-router-topk 2',
      1,
      'MTL_EXPERTS',
      /--moe-router-group-topk 3 is more than the 2 experts that a token uses/,
    ],
    [
      '--num-experts 8 --moe-router-topk 1',
      1,
      'MTL_FLAG_NEEDS',
      /weight 1.*expected --moe-router-pre-softmax/,
    ],
    [
      `--num-experts 8 ${bias}`,
      1,
      'MTL_FLAG_NEEDS',
      /expected --moe-router-score-function sigmoid or sqrtsoftplus/,
    ],
    [
      '--num-experts 8 --moe-router-bias-update-rate 0.01',
      1,
      'MTL_FLAG_NEEDS',
      /expected --moe-router-enable-expert/,
    ],
    [
      '--num-experts 8 --moe-shared-expert-gate',
      1,
      'MTL_FLAG_NEEDS',
      /expected --moe-shared-expert-intermediate/,
    ],
    [
      '--num-experts 8 --moe-shared-expert-intermediate-size 64',
      1,
      'MTL_FLAG_NEEDS',
      /has no biases; expected --disable-bias-linear/,
    ],
    [
      '--num-experts 8 --moe-router-load-balancing-type aux_loss seq_aux_loss --moe-aux-loss-coeff 0.01',
      1,
      'MTL_EXPERTS',
      /one number for each of .*aux_loss seq_aux_loss: 1 given; expected 2/,
    ],
    [
      '--num-experts 8 --moe-router-load-balancing-type aux_loss seq_aux_loss',
      1,
      'MTL_EXPERTS',
      /none given; expected 2: for aux_loss, seq_aux_loss/,
    ],
    ['--num-experts 8 --moe-aux-loss-coeff 0.1 0.1', 1, 'MTL_EXPERTS', /2 given; expected 1/],
    [
      '--num-experts 8 --moe-router-load-balancing-type none aux_loss',
      1,
      'MTL_FLAG_VALUE',
      /none and others/,
    ],
    [
      '--num-experts 8 --moe-router-load-balancing-type aux_loss aux_loss',
      1,
      'MTL_FLAG_VALUE',
      /a loss twice/,
    ],
    [
      '--num-experts 8 --moe-router-load-balancing-type sinkhorn',
      1,
      'MTL_FLAG_VALUE',
      /expected one or more of aux_loss, seq_aux_loss, global_aux_loss, none\n.*use seq_aux_loss/,
    ],
    [
      '--num-experts 8 --moe-router-load-balancing-type none quantile_balancing',
      1,
      'MTL_FLAG_VALUE',
      /must not depend on which tokens a rank has/,
    ],
    [
      '--num-experts 8 --moe-router-load-balancing-type aux_loss seq_aux_los',
      1,
      'MTL_FLAG_VALUE',
      /write --moe-router-load-balancing-type aux_loss seq_aux_loss$/,
    ],
    [
      '--num-experts 8 --moe-aux-loss-coeff -1',
      1,
      'MTL_FLAG_VALUE',
      /expected one number of 0 or more, or several/,
    ],
    [
      '--num-experts 8 --moe-expert-capacity-factor 0',
      1,
      'MTL_FLAG_VALUE',
      /above 0, or one below 0 for no capacity/,
    ],
    ['--quick-geglu --swiglu', 1, 'MTL_FLAG_CONFLICT', /one activation/],
    ['--quick-geglu --squared-relu', 1, 'MTL_FLAG_CONFLICT', /one activation/],
    ['--quick-geglu --gelu erf', 1, 'MTL_FLAG_CONFLICT', /one activation/],
    ['--glu-linear-offset 1', 1, 'MTL_FLAG_NEEDS', /expected --swiglu or --quick-geglu/],
    ['--activation-func-clamp-value 7', 1, 'MTL_FLAG_NEEDS', /expected --swiglu or --quick-geglu/],
  ],
  { numAdvised: 9 },
);
