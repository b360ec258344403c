import { describe, expect, it } from 'vitest';
import { catchError, configure, small, withFlags } from '../../test/support/configure.js';
import { refusals } from '../../test/support/refusals.js';
import { parseFlags } from '../command-line/parse-flags.js';
import { validateConfiguration } from './validate-configuration.js';

describe('parallelConfiguration', () => {
  it('describes interleaved stages', () => {
    const { parallel } = configure(
      `${small} --pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 1 --global-batch-size 4`,
      2,
    );
    expect(parallel).toMatchObject({ numVirtualStages: 2, pipelineSchedule: 'interleaved' });
  });

  it.each<[string, unknown]>([
    ['', 'even'],
    ['--num-layers 7', 'balanced'],
    ['--pipeline-model-parallel-layout balanced', 'balanced'],
    ['--pipeline-model-parallel-layout Ettt|tL', [3, 1]],
    [
      '--num-layers 8 --num-virtual-stages-per-pipeline-rank 2 --pipeline-model-parallel-layout Et,(t|)*2tt|t*3L',
      [2, 1, 2, 3],
    ],
    ['--decoder-last-pipeline-num-layers 1', [3, 1]],
    ['--decoder-first-pipeline-num-layers 1 --decoder-last-pipeline-num-layers 3', [1, 3]],
  ])('deals layers out to stages: %s', (flags, layout) => {
    const line = withFlags(`--pipeline-model-parallel-size 2 --global-batch-size 8 ${flags}`);
    expect(configure(line, 2).parallel.layerLayout).toEqual(layout);
  });

  it.each<[string, object]>([
    ['zb-v', { numVirtualStages: 2 }],
    ['breadth-first', { numVirtualStages: 1 }],
    ['breadth-first --num-virtual-stages-per-pipeline-rank 2', { numVirtualStages: 2 }],
    [
      'interleaved --num-virtual-stages-per-pipeline-rank 2 --microbatch-group-size-per-virtual-pipeline-stage 4',
      { numVirtualStages: 2, microBatchGroupSize: 4 },
    ],
  ])('knows the chunks of a schedule: %s', (flags, expected) => {
    const line = withFlags(
      `--pipeline-model-parallel-size 2 --global-batch-size 8 --pipeline-schedule ${flags}`,
    );
    expect(configure(line, 2).parallel).toMatchObject(expected);
  });

  it.each<[string, number, boolean, RegExp | undefined]>([
    ['', 1, false, undefined],
    ['--device cuda', 1, false, undefined],
    ['--device cuda --cuda-graphs', 1, true, undefined],
    ['--device cuda --cuda-graphs', 2, true, undefined],
    ['--cuda-graphs', 1, false, /no effect with --device cpu/],
    ['--device cuda --cuda-graphs --pipeline-model-parallel-size 2', 2, true, undefined],
    ['--cuda-graphs --tensor-model-parallel-size 2', 2, false, /no effect with --device cpu/],
  ])(
    'records passes where they can be, and else says why not: %s in %i processes',
    (flags, size, records, notice) => {
      const { parallel, notices } = configure(withFlags(`--global-batch-size 8 ${flags}`), size);
      expect(parallel.cudaGraphs).toBe(records);
      const said = notices.filter((text) => text.includes('--cuda-graphs'));
      expect(said).toEqual(notice === undefined ? [] : [expect.stringMatching(notice)]);
    },
  );

  it.each(['', ' --sequence-parallel', ' --pipeline-model-parallel-size 2'])(
    'refuses graphs of passes that contain communication: --tensor-model-parallel-size 2%s',
    (more) => {
      const flags = `--device cuda --cuda-graphs --tensor-model-parallel-size 2${more}`;
      expect(() => configure(withFlags(`--global-batch-size 8 ${flags}`), 4)).toThrow(
        expect.objectContaining({
          code: 'MTL_CUDA_GRAPHS',
          message: expect.stringContaining('--cuda-graphs with --tensor-model-parallel-size 2'),
          remedy: expect.stringContaining('leave --cuda-graphs out'),
        }),
      );
    },
  );

  it.each<[string, boolean, string[]]>([
    ['--device cuda', false, []],
    ['--device cuda --allow-tf32', true, []],
    ['--allow-tf32', false, ['--allow-tf32 has no effect with --device cpu']],
  ])('computes matmuls in TF32 on GPUs, and only when asked: %s', (flags, allowTf32, said) => {
    const { parallel, notices } = configure(withFlags(flags));
    expect(parallel.allowTf32).toBe(allowTf32);
    expect(notices.filter((text) => text.includes('tf32'))).toEqual(said);
  });

  it('cuts the packed samples of a BERT over a sequence-parallel group, whatever their length', () => {
    const line = withFlags('--tensor-model-parallel-size 4 --sequence-parallel --seq-length 30');
    const argv = line.split(' ').filter((word) => word !== '');
    const { model, parallel } = validateConfiguration(parseFlags(argv, { model: 'bert' }), { worldSize: 4 });
    expect(model.sequenceLength).toBe(30);
    expect(parallel).toMatchObject({ sequenceParallel: true, tensorModelParallelSize: 4 });
  });
});

it('names the paddings of a vocabulary that suit a tensor-parallel size', () => {
  const line = '--num-attention-heads 6 --hidden-size 96 --tensor-model-parallel-size 3';
  const error = catchError(withFlags(line), 3);
  expect(error.code).toBe('MTL_TENSOR_PARALLEL_SIZE');
  expect(error.expected).toBe('2, or --make-vocab-size-divisible-by 126, 129, 384 or another multiple of 3');
  for (const padding of [126, 129, 384])
    expect(() => configure(`${withFlags(line)} --make-vocab-size-divisible-by ${padding}`, 3)).not.toThrow();
  expect(error.remedy).toBe('pass --tensor-model-parallel-size 2, or --make-vocab-size-divisible-by 384');
});

refusals(
  [
    [
      '--tensor-model-parallel-size 3',
      3,
      'MTL_TENSOR_PARALLEL_SIZE',
      /3 does not divide --num-attention-heads 4; expected 2 or 4/,
    ],
    [
      '--tensor-model-parallel-size 4 --ffn-hidden-size 102',
      4,
      'MTL_TENSOR_PARALLEL_SIZE',
      /--ffn-hidden-size 102; expected 2/,
    ],
    [
      '--tensor-model-parallel-size 4 --make-vocab-size-divisible-by 2',
      4,
      'MTL_TENSOR_PARALLEL_SIZE',
      /--make-vocab-size-divisible-by 2; expected 2/,
    ],
    [
      '--tensor-model-parallel-size 4 --sequence-parallel --seq-length 30',
      4,
      'MTL_TENSOR_PARALLEL_SIZE',
      /--seq-length 30; expected 2/,
    ],
    [
      '--pipeline-model-parallel-size 5',
      5,
      'MTL_PIPELINE_LAYERS',
      /4 layers cannot be split into 5 chunks; expected at most 4 chunks/,
    ],
    [
      '--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout Ett|tttL',
      2,
      'MTL_PIPELINE_LAYERS',
      /chunks of 2, 3 layers.*expected 2 numbers of 1 or more whose sum is 4/,
    ],
    [
      '--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout Ettt|tmL',
      2,
      'MTL_PIPELINE_LAYERS',
      /layout Ettt\|tmL: "m" is no part of a GPT; expected even, balanced, or stages/,
    ],
    [
      '--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout E|ttttL',
      2,
      'MTL_PIPELINE_LAYERS',
      /stage 1 has no layer/,
    ],
    [
      '--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout even --decoder-last-pipeline-num-layers 1',
      2,
      'MTL_FLAG_CONFLICT',
      /both set how many layers a stage has/,
    ],
    [
      '--pipeline-model-parallel-size 3 --decoder-last-pipeline-num-layers 1',
      3,
      'MTL_PIPELINE_LAYERS',
      /3 of 4 layers are left for 2 other stages; expected a multiple of 2/,
    ],
    [
      '--pipeline-model-parallel-size 2 --pipeline-schedule zb-v --decoder-first-pipeline-num-layers 1',
      2,
      'MTL_FLAG_NEEDS',
      /expected --pipeline-model-parallel-layout/,
    ],
    [
      '--pipeline-model-parallel-size 2 --pipeline-schedule zb-h',
      2,
      'MTL_SCHEDULE_NAME',
      /unknown schedule zb-h; expected one of gpipe.*\n.*did you mean zb-h1/,
    ],
    [
      '--pipeline-model-parallel-size 2 --pipeline-schedule none/such.csv',
      2,
      'MTL_SCHEDULE_CSV',
      /--pipeline-schedule none\/such.csv: ENOENT.*expected a schedule file/,
    ],
    [
      '--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 --num-layers-per-virtual-pipeline-stage 1',
      2,
      'MTL_FLAG_CONFLICT',
      /both set how many chunks/,
    ],
    [
      '--pipeline-model-parallel-size 3 --num-layers-per-virtual-pipeline-stage 1',
      3,
      'MTL_PIPELINE_SIZE',
      /3 stages do not divide --num-layers 4; expected.*\n.*--num-virtual-stages-per-pipeline-rank/,
    ],
    [
      '--pipeline-model-parallel-size 2 --microbatch-group-size-per-virtual-pipeline-stage 2 --global-batch-size 8',
      2,
      'MTL_SCHEDULE_GROUP_SIZE',
      /1f1b has no micro-batch groups/,
    ],
    [
      '--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 --global-batch-size 16 --rampup-batch-size 2 2 100 --no-train-iters --train-samples 1000',
      2,
      'MTL_SCHEDULE_MICRO_BATCHES',
      /interleaved: 1 micro-batches in groups of 2/,
    ],
    [
      '--pipeline-model-parallel-size 2 --num-layers 12 --num-layers-per-virtual-pipeline-stage 4',
      2,
      'MTL_PIPELINE_SIZE',
      /4 does not divide the 6 layers of a stage; expected 3 or 6/,
    ],
    [
      '--num-layers-per-virtual-pipeline-stage 1',
      1,
      'MTL_FLAG_NEEDS',
      /has no pipeline to interleave; expected --pipeline-model-parallel-size of 2/,
    ],
    [
      '--pipeline-schedule interleaved --pipeline-model-parallel-size 2',
      2,
      'MTL_FLAG_NEEDS',
      /needs several chunks/,
    ],
    [
      '--pipeline-schedule 1f1b --pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 1',
      2,
      'MTL_SCHEDULE_CHUNKS',
      /1f1b: a rank cannot hold 2 chunks/,
    ],
    [
      '--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 1',
      2,
      'MTL_SCHEDULE_MICRO_BATCHES',
      /interleaved: 1 micro-batches in groups of 2 do not fill one group, on 2 stages; expected 2.*--global-batch-size/s,
    ],
    [
      '--tensor-model-parallel-size 2',
      1,
      'MTL_WORLD_SIZE',
      /1 process is running, but tensor x pipeline parallelism is 2 x 1 = 2; expected a multiple of 2 processes\n.*npx mtl run --nproc-per-node 2, or choose smaller sizes/,
    ],
    [
      '--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2',
      6,
      'MTL_WORLD_SIZE',
      /6 processes are running.*2 x 2 = 4.*\n.*npx mtl run --nproc-per-node 4, or choose smaller sizes/,
    ],
    ['--overlap-param-gather', 1, 'MTL_FLAG_NEEDS', /expected --use-distributed-optimizer/],
  ],
  { numAdvised: 5 },
);
