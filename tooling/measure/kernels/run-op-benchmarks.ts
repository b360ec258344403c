/**
 * Measures the speed of every operation at the sizes of the GPT presets, from the `benchmark` entries in the
 * case tables:
 *   npm run dev -- operations [ -t gelu]
 * MTL_THREADS=2 and MTL_BENCH_DTYPES=float32,bfloat16 choose threads and dtypes, MTL_BENCH_DEVICE=cuda
 * chooses the GPU, and MTL_BENCH_DRY_RUN=1 tiny sizes. MTL_BENCH_JSON names a file for the results (see
 * kernels/cuda/bench-kernels.mjs).
 * On a GPU, attention is timed with the kernels that the device chooses, and with the kernels for any GPU
 * (mma.sync). An operation is timed only after its values match the reference, at the size of the benchmark.
 * If the naive reference would take minutes (arithmetic-bound operations), the sizes of the parity cases are
 * used for this check. An operation is compared with a copy of the same size, or with oneDNN's matmul,
 * measured in the same process. Rates and ratios are from the fastest runs, so that other work on the machine
 * has little effect.
 */
import { writeFileSync } from 'node:fs';
import { afterAll, describe, expect, it } from 'vitest';
import {
  bytesPerElement,
  type Device,
  type DType,
  hostInformation,
  philoxNormal,
  setNumThreads,
  Tensor,
} from '../../../packages/kernels/src/index.js';
import { caseTables } from '../../../packages/kernels/test/op-cases/case-tables.js';
import { disposeAll, makeTensors } from '../../../packages/kernels/test/op-cases/case-tensors.js';
import { compareOutputs } from '../../../packages/kernels/test/op-cases/compare-outputs.js';
import type { OpCase, TensorSpec, Tensors } from '../../../packages/kernels/test/op-cases/op-case.js';
import { copyRate, device, matmulRate, time } from './measure.js';

type BenchmarkDType = 'float32' | 'bfloat16';

interface Row {
  readonly name: string;
  readonly dtype: string;
  readonly milliseconds: number;
  readonly rate: string;
  readonly peer: string;
  readonly ratio: number;
  readonly operation: string;
  /** The shape of the tensor `qkv`, by which the same attention is found in the results of PyTorch. */
  readonly qkv: readonly number[] | undefined;
  readonly bestSeconds: number;
  readonly bytes: number;
  readonly flops: number | undefined;
}

const cases = caseTables.flatMap((table) => table.cases);
const dtypes = (process.env.MTL_BENCH_DTYPES?.split(',') ?? ['float32', 'bfloat16']) as BenchmarkDType[];
if (process.env.MTL_THREADS !== undefined) setNumThreads(Number(process.env.MTL_THREADS));
const rows: Row[] = [];

const countElements = (spec: TensorSpec): number => spec.shape.reduce((product, size) => product * size, 1);

/**
 * Returns a tensor of normally distributed values, N(0, scale). All threads of the host compute it, because
 * JavaScript would need a minute for the logits, and a single thread would need ten seconds for each tensor
 * of a feed-forward layer.
 */
function normalTensor(
  { shape, scale = 1 }: TensorSpec,
  { device, dtype, key }: { device: Device; dtype: DType; key: readonly [number, number] },
): Tensor {
  const tensor = Tensor.empty({ shape, dtype, device });
  let width = 1;
  while (width < 1024 && tensor.size % (2 * width) === 0) width *= 2;
  const host = Tensor.empty({ shape: [tensor.size / width, width], dtype, device: 'cpu' });
  philoxNormal({ output: host, standardDeviation: scale, key, globalColumns: width });
  tensor.write(host.read());
  host.dispose();
  return tensor;
}

/** Makes tensors as `makeTensors` does, but computes the values of large tensors quickly. */
function makeLargeTensors(
  specs: OpCase['tensors'],
  { device, dtype }: { device: Device; dtype: DType },
): Tensors {
  const isLarge = (spec: TensorSpec): boolean =>
    (spec.values ?? 'normal') === 'normal' && countElements(spec) > 1000;
  const small = Object.fromEntries(Object.entries(specs).filter(([, spec]) => !isLarge(spec)));
  const tensors: Record<string, Tensor> = { ...makeTensors(small, { device, dtype, seed: 5 }) };
  Object.entries(specs).forEach(([name, spec], position) => {
    if (!isLarge(spec)) return;
    tensors[name] = normalTensor(spec, { device, dtype: spec.dtype ?? dtype, key: [position, 99] });
  });
  return tensors;
}

function expectReferenceValues(opCase: OpCase, dtype: DType, make: typeof makeLargeTensors): void {
  const expected = make(opCase.tensors, { device: 'reference', dtype });
  const actual = make(opCase.tensors, { device, dtype });
  opCase.run(expected);
  opCase.run(actual);
  expect(compareOutputs(opCase, dtype, { actual, expected }), opCase.name).toBeUndefined();
  disposeAll(expected);
  disposeAll(actual);
}

/**
 * The operations (with dtype and kernels) whose parity cases have already been checked. Each operation is
 * checked only once, not for each size.
 */
const checkedOperations = new Set<string>();

function check(opCase: OpCase, dtype: DType): void {
  if (opCase.benchmark?.flops === undefined && opCase.benchmark?.elements === undefined) {
    expectReferenceValues(opCase, dtype, makeLargeTensors);
    return;
  }
  const what = [opCase.operation, dtype, process.env.MTL_CUDA_ATTENTION].join();
  if (checkedOperations.has(what)) return;
  for (const parityCase of cases) {
    const isForDevice = device === 'cuda' ? !parityCase.isOnlyForHost : !parityCase.isOnlyForCuda;
    const applies =
      isForDevice && parityCase.operation === opCase.operation && parityCase.benchmark === undefined;
    if (!applies || !(parityCase.dtypes ?? [dtype]).includes(dtype)) continue;
    expectReferenceValues(parityCase, dtype, (specs, options) => makeTensors(specs, { ...options, seed: 3 }));
  }
  checkedOperations.add(what);
}

/** Returns the number of bytes that a run must move between memory and the processor. */
function countTraffic({ tensors, benchmark }: OpCase, dtype: DType): number {
  if (benchmark?.elements !== undefined) return benchmark.elements * bytesPerElement(dtype);
  return Object.values(tensors).reduce(
    (bytes, spec) =>
      bytes +
      countElements(spec) * bytesPerElement(spec.dtype ?? dtype) * (spec.accumulated === true ? 2 : 1),
    0,
  );
}

const matmulRates = new Map<BenchmarkDType, number>();

/**
 * Returns the rate of a matmul. On a GPU, which no other program uses, one measurement is enough. On a CPU,
 * every call measures again, because the speed of a shared machine changes within seconds.
 */
function measureMatmulRate(dtype: BenchmarkDType): number {
  const known = device === 'cuda' ? matmulRates.get(dtype) : undefined;
  const rate = known ?? matmulRate(dtype);
  matmulRates.set(dtype, rate);
  return rate;
}

function measure(opCase: OpCase, dtype: BenchmarkDType): Row {
  const tensors = makeLargeTensors(opCase.tensors, { device, dtype });
  const flops = opCase.benchmark?.flops;
  const bytes = countTraffic(opCase, dtype);
  // the rate for the comparison is measured immediately before and after the operation, because the speed of
  // a shared machine changes within seconds
  const peer = (): number => (flops === undefined ? copyRate(bytes) : measureMatmulRate(dtype));
  const before = peer();
  const { median, best } = time(() => opCase.run(tensors));
  const peerRate = Math.max(before, peer());
  disposeAll(tensors);
  const rate = (flops ?? bytes) / best;
  const unit = flops === undefined ? 'GB/s' : 'GFLOP/s';
  return {
    name: opCase.name,
    dtype,
    milliseconds: median * 1e3,
    rate: `${(rate / 1e9).toFixed(1)} ${unit}`,
    peer: `${(peerRate / 1e9).toFixed(1)} ${unit}`,
    ratio: rate / peerRate,
    operation: opCase.operation,
    qkv: opCase.tensors.qkv?.shape,
    bestSeconds: best,
    bytes,
    flops,
  };
}

/** Saves all rows after each new row, so that an interrupted run keeps its results. */
function keep(row: Row): void {
  rows.push(row);
  const { MTL_BENCH_JSON: file } = process.env;
  if (file !== undefined) writeFileSync(file, `${JSON.stringify(rows, null, 1)}\n`);
}

afterAll(() => {
  const { instructionSet, numThreads, onednnVersion } = hostInformation();
  const lines = rows.map(
    ({ name, dtype, milliseconds, rate, peer, ratio }) =>
      `${name.padEnd(74)} ${dtype.padEnd(9)} ${milliseconds.toFixed(3).padStart(9)} ${rate.padStart(15)} ${peer.padStart(15)} ${`${(100 * ratio).toFixed(0)} %`.padStart(7)}`,
  );
  console.log(
    [
      `${device}; host: ${instructionSet}, ${numThreads} threads, oneDNN ${onednnVersion}; peer: a copy of the same size, or the library's matmul`,
      `${'operation'.padEnd(74)} ${'dtype'.padEnd(9)} ${'median ms'.padStart(9)} ${'rate'.padStart(15)} ${'peer'.padStart(15)} ${'ratio'.padStart(7)}`,
      ...lines,
    ].join('\n'),
  );
});

const attentionVariable = process.env.MTL_CUDA_ATTENTION;

/**
 * Returns true if an operation may run with kernels that exist only for the GPU's architecture. Returns false
 * if MTL_CUDA_ATTENTION already selects the kernels.
 */
function hasOwnKernels({ operation }: OpCase, dtype: BenchmarkDType): boolean {
  const isAttention = /^(?:packed_)?attention_(?:forward|backward)$/.test(operation);
  return device === 'cuda' && isAttention && dtype !== 'float32' && !attentionVariable;
}

/** Runs with the kernels for any GPU. */
function withKernelsForAnyGpu(body: () => void): void {
  process.env.MTL_CUDA_ATTENTION = 'mma.sync';
  try {
    body();
  } finally {
    delete process.env.MTL_CUDA_ATTENTION;
  }
}

describe('operations agree with the reference and are timed', () => {
  for (const opCase of cases.filter(({ benchmark }) => benchmark !== undefined)) {
    for (const dtype of dtypes) {
      if (!(opCase.dtypes ?? dtypes).includes(dtype)) continue;
      const checkAndMeasure = (timed: OpCase): void => {
        check(timed, dtype);
        keep(measure(timed, dtype));
      };
      it(`${opCase.name} ${dtype}`, () => checkAndMeasure(opCase));
      if (!hasOwnKernels(opCase, dtype)) continue;
      const name = `${opCase.name} mma.sync`;
      it(`${name} ${dtype}`, () => withKernelsForAnyGpu(() => checkAndMeasure({ ...opCase, name })));
    }
  }
});
