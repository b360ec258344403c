import { expect, it } from 'vitest';
import { configure, withFlags } from '../../test/support/configure.js';
import { refusals } from '../../test/support/refusals.js';
import { parseFlags } from '../command-line/parse-flags.js';
import { processesText } from '../print-configuration.js';
import { groupsOfRun, layoutText, meshOfRun } from './strategies.js';

const experts = '--num-experts 8 --disable-bias-linear --global-batch-size 16';
const configureParallel = (line: string, worldSize: number) =>
  configure(withFlags(`${experts} ${line}`), worldSize).parallel;

it('spreads experts over the processes of a stage, which are no more for it', () => {
  const parallel = configureParallel('--expert-model-parallel-size 4', 8);
  expect(parallel).toMatchObject({
    dataParallelSize: 8,
    expertModelParallelSize: 4,
    expertTensorParallelSize: 1,
    moeTokenDispatcherType: 'alltoall',
  });
  expect(meshOfRun(parallel).sizes).toEqual({ tp: 1, cp: 1, dp: 8, pp: 1, etp: 1, ep: 4, edp: 2 });
});

it('folds: experts need not be split as the rest of a layer is', () => {
  const folded = configureParallel(
    '--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --expert-tensor-parallel-size 1 ' +
      '--expert-model-parallel-size 4 --moe-token-dispatcher-type allgather',
    16,
  );
  expect(meshOfRun(folded).sizes).toEqual({ tp: 2, cp: 1, dp: 4, pp: 2, etp: 1, ep: 4, edp: 2 });
  expect(folded.moeTokenDispatcherType).toBe('allgather');
  const asDense = configureParallel('--tensor-model-parallel-size 2', 8);
  expect(meshOfRun(asDense).sizes).toMatchObject({ etp: 2, ep: 1, edp: 4 });
});

it('has the groups of dispatch and of gradients', () => {
  const mesh = meshOfRun(
    configureParallel(
      '--tensor-model-parallel-size 2 --expert-tensor-parallel-size 1 --expert-model-parallel-size 4',
      8,
    ),
  );
  expect(groupsOfRun(mesh)).toMatchObject({
    ep: { declaration: ['ep'], countsAs: 'ep' },
    etp: { declaration: ['etp'], countsAs: 'ep' },
    experts: { declaration: ['etp', 'ep'], countsAs: 'ep' },
    expert: { declaration: ['edp'], countsAs: 'dp' },
  });
});

it.each([
  ['', 1, 'tensor 1 x pipeline 1 x data 1'],
  ['--tensor-model-parallel-size 2', 4, 'tensor 2 x pipeline 1 x data 2'],
  ['--expert-model-parallel-size 4', 8, 'tensor 1 x pipeline 1 x data 8, experts: expert 4 x data 2'],
  [
    '--tensor-model-parallel-size 2 --expert-model-parallel-size 2',
    4,
    'tensor 2 x pipeline 1 x data 2, experts: tensor 2 x expert 2',
  ],
  [
    '--tensor-model-parallel-size 2 --expert-tensor-parallel-size 1',
    4,
    'tensor 2 x pipeline 1 x data 2, experts: data 4',
  ],
])('names the sizes of experts where they differ from the rest: %s', (line, worldSize, text) => {
  const configuration = configure(withFlags(`${experts} ${line}`), worldSize);
  expect(layoutText(configuration.parallel)).toBe(text);
  expect(processesText(configuration)).toBe(`${worldSize} = ${text}`);
});

it('is no part of a run without experts', () => {
  const { parallel, notices } = configure(withFlags('--tensor-model-parallel-size 2'), 4);
  expect(Object.keys(parallel).filter((key) => /expert|moe/i.test(key))).toEqual([]);
  expect(notices).toEqual([]);
  const said = (line: string) =>
    configure(withFlags(`--tensor-model-parallel-size 2 ${line}`), 4).notices.map(
      (text) => text.split(' ')[0],
    );
  expect(said('--expert-model-parallel-size 1')).toEqual(['--expert-model-parallel-size']);
  expect(said('--expert-tensor-parallel-size 1')).toEqual(['--expert-tensor-parallel-size']);
  expect(said('--expert-tensor-parallel-size 2')).toEqual(['--expert-tensor-parallel-size']);
  expect(said('--moe-token-dispatcher-type allgather')).toEqual(['--moe-token-dispatcher-type']);
});

it('is refused for a BERT, which has no experts', () => {
  for (const name of ['expert-model-parallel-size', 'expert-tensor-parallel-size']) {
    expect(() => parseFlags([`--${name}`, '2'], { model: 'bert' })).toThrow(
      expect.objectContaining({ code: 'MTL_FLAG_MODEL' }),
    );
  }
});

const biasless = '--disable-bias-linear --num-experts';

refusals(
  [
    ['--expert-model-parallel-size 2', 2, 'MTL_FLAG_NEEDS', /there are none; expected --num-experts/],
    ['--expert-tensor-parallel-size 4', 4, 'MTL_FLAG_NEEDS', /there are none; expected --num-experts/],
    [
      '--num-experts 6 --expert-model-parallel-size 4',
      4,
      'MTL_EXPERT_PARALLEL_SIZE',
      /--expert-model-parallel-size 4 does not divide --num-experts 6; expected 2/,
    ],
    [
      '--num-experts 6 --expert-model-parallel-size 3',
      4,
      'MTL_EXPERT_PARALLEL_SIZE',
      /3 does not fit 4 processes of a stage \(tensor 1 x data 4\): 1 x 3 processes .* expected 2/,
    ],
    [
      `${biasless} 8 --tensor-model-parallel-size 2 --expert-model-parallel-size 8`,
      8,
      'MTL_EXPERT_PARALLEL_SIZE',
      /8 does not fit 8 processes of a stage \(tensor 2 x data 4\): 2 x 8 processes .* expected 4/,
    ],
    [
      `${biasless} 8 --pipeline-model-parallel-size 2 --global-batch-size 8 --expert-model-parallel-size 4`,
      4,
      'MTL_EXPERT_PARALLEL_SIZE',
      /4 does not fit 2 processes of a stage.*expected 2/,
    ],
    [
      '--num-experts 8 --tensor-model-parallel-size 2',
      2,
      'MTL_EXPERT_PARALLEL_SIZE',
      /2, which is --expert-tensor-parallel-size too, splits experts, whose biases cannot be split; expected 1\n.*pass --expert-tensor-parallel-size 1, or add --disable-bias-linear/,
    ],
    [
      `${biasless} 8 --expert-tensor-parallel-size 3`,
      4,
      'MTL_EXPERT_PARALLEL_SIZE',
      /--expert-tensor-parallel-size 3 does not divide --ffn-hidden-size 256; expected 2 or 4/,
    ],
    [
      `${biasless} 8 --moe-ffn-hidden-size 102 --tensor-model-parallel-size 4`,
      4,
      'MTL_EXPERT_PARALLEL_SIZE',
      /4, which is --expert-tensor-parallel-size too, does not divide --moe-ffn-hidden-size 102; expected 2/,
    ],
    [
      `${biasless} 8 --expert-tensor-parallel-size 4`,
      2,
      'MTL_EXPERT_PARALLEL_SIZE',
      /4 does not divide the 2 processes of a stage \(tensor 1 x data 2\); expected 2/,
    ],
    [
      `${biasless} 8 --moe-shared-expert-intermediate-size 102 --tensor-model-parallel-size 4`,
      4,
      'MTL_TENSOR_PARALLEL_SIZE',
      /--tensor-model-parallel-size 4 does not divide --moe-shared-expert-intermediate-size 102; expected 2/,
    ],
    [
      '--num-experts 8 --moe-token-dispatcher-type flex',
      1,
      'MTL_FLAG_VALUE',
      /expected alltoall, allgather\n.*write --moe-token-dispatcher-type alltoall/,
    ],
  ],
  { numAdvised: 9 },
);
