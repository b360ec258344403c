// One rank of the benchmark. Rank 0 prints the best and the median of 40 samples. The best shows the engine's
// speed when nothing else uses the cores. GB/s values are the tensor's bytes divided by the time. The
// roofline is a single copy of these bytes in memory.
import { LocalWorld, type World } from '@mtl/comm';
import { FileStore } from '@mtl/comm/testing';
import { type DType, Tensor } from '@mtl/kernels';
import { GlooWorld } from '../../../packages/comm/test/support/gloo-world.js';

const [rank, size, directory] = [Number(process.argv[2]), Number(process.argv[3]), process.argv[4]!];
const numSamples = 40;
// for the gloo engine over the loopback interface: the index of the simulated host of each rank
const hosts = process.argv[5] === undefined ? undefined : (JSON.parse(process.argv[5]) as number[]);
const limits = { rank, timeoutMs: 60_000, joinTimeoutMs: 60_000, abortGraceMs: 10_000 };
const world: World =
  hosts === undefined
    ? new LocalWorld({ ...limits, size, store: new FileStore(directory) })
    : new GlooWorld({ ...limits, hosts, directory, socketInterface: '127.0.0.1' });
const { group } = world;

/** Returns the sorted times of repeated calls, in microseconds per call. */
function sample(repetitions: number, call: () => void): number[] {
  const samples = Array.from({ length: numSamples }, () => {
    const started = performance.now();
    for (let repetition = 0; repetition < repetitions; repetition++) call();
    return ((performance.now() - started) * 1000) / repetitions;
  });
  return samples.toSorted((a, b) => a - b);
}

function report(name: string, samples: readonly number[], compare?: { bytes: number; copyUs: number }): void {
  if (rank !== 0) return;
  const [best, median] = [samples[0]!, samples[numSamples / 2]!];
  const times = `${best.toFixed(2).padStart(10)} us best ${median.toFixed(2).padStart(10)} us median`;
  const speed = (us: number): string => `${((compare?.bytes ?? 0) / us / 1000).toFixed(2)} GB/s`;
  const rates = compare === undefined ? '' : `  ${speed(best)} best, ${speed(median)} median`;
  const ratio = compare === undefined ? '' : `, ${(best / compare.copyUs).toFixed(1)} copies`;
  console.log(`${`${size} ranks, ${group.engine} ${name}`.padEnd(46)}${times}${rates}${ratio}`);
}

function allReduceBenchmark(dtype: DType, count: number): void {
  const tensor = Tensor.from(
    Array.from({ length: count }, (_, index) => (index % 8) + rank),
    { shape: [count], dtype },
  );
  group.allReduce(tensor).wait();
  const wrong = tensor.toArray().findIndex((value, index) => {
    return value !== size * (index % 8) + (size * (size - 1)) / 2;
  });
  if (wrong >= 0) throw new Error(`element ${wrong} of an all-reduce of ${count} ${dtype} is wrong`);
  tensor.zero();
  const source = new Uint8Array(tensor.bytes);
  const target = new Uint8Array(tensor.bytes).fill(1);
  const copyUs = sample(5, () => target.set(source))[0]!;
  group.barrier().wait();
  const samples = sample(count > 1000 ? 4 : 100, () => group.allReduce(tensor).wait());
  report(`all-reduce ${tensor.bytes} B ${dtype}`, samples, { bytes: tensor.bytes, copyUs });
  tensor.dispose();
}

report(
  'barrier',
  sample(200, () => group.barrier().wait()),
);
allReduceBenchmark('float32', 1);
allReduceBenchmark('float32', 1 << 20);
allReduceBenchmark('bfloat16', 1 << 21);
world.close();
