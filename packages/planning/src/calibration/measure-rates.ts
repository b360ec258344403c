import { totalmem } from 'node:os';
import type { ProcessGroup, World } from '@mtl/comm';
import type { MeasuredRates } from '@mtl/cost-model';
import { MtlError } from '@mtl/errors';
import { type Device, DeviceMark, matmul, Tensor } from '@mtl/kernels';
import { openCuda } from '@mtl/kernels/internal';
import { setThreadsOfRank } from '@mtl/runs/lifecycle';
import { dryRunModel } from '../dry-run/dry-run.js';
import { type DryRunListener, dryRunRank } from '../dry-run/dry-run-rank.js';
import { DeviceOperationClock } from './device-operation-clock.js';
import { meanWithSpread, measuredEntries, medianWithSpread } from './measured-points.js';
import { OperationClock, type OperationSamples, type TimedStep, typicalSteps } from './operation-clock.js';
import { configurationOfReference, type ReferenceRun } from './reference-runs.js';

export interface MeasureRatesOptions {
  /** The device to measure; `cuda` must be open already. Default: `cpu`. */
  readonly device?: 'cpu' | 'cuda';
  /** The world of the processes that share this machine; undefined for a single process. */
  readonly world: World | undefined;
  /** Number of threads of each process. */
  readonly numThreads: number;
  readonly runs: readonly ReferenceRun[];
  /** The sizes of the complete tensors with which collectives are timed, in bytes, ascending. */
  readonly collectiveBytes: readonly number[];
  /** Called with each run before it starts. */
  readonly onRun?: (run: ReferenceRun, index: number) => void;
}

/** Number of steps at the start in which memory is allocated and primitives are created. */
const numWarmUpSteps = 2;
/** Number of steps without marks on a device, in which host times are measured. */
const numPlainSteps = 3;

/**
 * Measures the times of operations on this machine while all processes run the same operations. All processes
 * must call this function. They train small models at the same time without communication, and then time
 * their collectives.
 */
export async function measureRates(options: MeasureRatesOptions): Promise<MeasuredRates> {
  const { world, numThreads, runs, collectiveBytes, onRun, device = 'cpu' } = options;
  const numProcesses = world?.size ?? 1;
  setThreadsOfRank(numThreads, { localSize: numProcesses });
  const samples = new Map<string, OperationSamples>();
  const passSeconds: number[] = [];
  const stepSeconds: number[] = [];
  const operationSeconds: number[] = [];
  for (const [index, run] of runs.entries()) {
    onRun?.(run, index);
    world?.group.barrier().wait();
    const { steps, hostSecondsPerOperation } = await clockedRun(run, device);
    if (hostSecondsPerOperation !== undefined) operationSeconds.push(hostSecondsPerOperation);
    for (const step of typicalSteps(steps)) {
      for (const [key, { operation, seconds }] of step.samples) {
        const known = samples.get(key);
        if (known === undefined) samples.set(key, { operation, seconds });
        else known.seconds.push(...seconds);
      }
      passSeconds.push(...step.passSeconds);
      stepSeconds.push(step.stepSeconds);
    }
  }
  return {
    numProcesses,
    numThreads,
    memoryBytes: device === 'cuda' ? memoryOfGpu() : Math.floor(totalmem() / numProcesses),
    ...measuredEntries(samples.values()),
    ...(world === undefined
      ? {}
      : { collectives: measureCollectives({ group: world.group, device, collectiveBytes }) }),
    host:
      device === 'cuda'
        ? {
            passSeconds: 0,
            // if the device is always busy, the host adds no time to a step
            stepSeconds: medianWithSpread(stepSeconds).median,
            operationSeconds: medianWithSpread(operationSeconds).median,
          }
        : {
            passSeconds: meanWithSpread(passSeconds).mean,
            stepSeconds: meanWithSpread(stepSeconds).mean,
          },
  };
}

/** The times of a run. */
interface ClockedRun {
  readonly steps: readonly TimedStep[];
  /** Host seconds per operation; undefined if the times of operations include host time. */
  readonly hostSecondsPerOperation?: number;
}

async function clockedRun(run: ReferenceRun, device: 'cpu' | 'cuda'): Promise<ClockedRun> {
  if (device === 'cpu') {
    const clock = new OperationClock({ numWarmUpSteps });
    await trainListened(run, { device, numSteps: run.numSteps, listener: clock });
    return { steps: clock.steps };
  }
  using clock = new DeviceOperationClock({ device, numWarmUpSteps, numPlainSteps });
  await trainListened(run, { device, numSteps: run.numSteps, listener: clock });
  return { steps: clock.steps, hostSecondsPerOperation: clock.hostSecondsPerOperation };
}

interface TrainListenedOptions {
  readonly device: 'cpu' | 'cuda';
  readonly numSteps: number;
  readonly listener: DryRunListener;
}

async function trainListened(run: ReferenceRun, { device, ...options }: TrainListenedOptions): Promise<void> {
  const configuration = configurationOfReference(run, device);
  const { model } = await dryRunModel(configuration);
  try {
    await dryRunRank({ configuration, scale: 1 }, { rank: 0, model, ...options });
  } catch (error) {
    // a single rank that simulates several ranks may compute values that are not finite; the times are valid
    // nevertheless
    if (!(MtlError.isInstance(error) && error.code === 'MTL_NOT_FINITE')) throw error;
  }
}

/** Returns the memory of the open GPU, in bytes. */
function memoryOfGpu(): number {
  const { devices, deviceIndex } = openCuda();
  return devices[deviceIndex]!.memoryBytes;
}

type CollectiveEntry = NonNullable<MeasuredRates['collectives']>[number];

interface MeasureCollectivesOptions extends Pick<MeasureRatesOptions, 'collectiveBytes'> {
  readonly group: ProcessGroup;
  readonly device: 'cpu' | 'cuda';
}

/**
 * Times collectives and messages between the processes of `group`. All processes must call this function.
 *
 * A collective is timed as in a step, with a tensor that was just written. It follows a matmul of about a
 * millisecond, which ranks finish at different times. From half a mebibyte on, such a collective takes two to
 * three times as long as consecutive collectives without a matmul. A message is timed alone, because its
 * receiver's waiting time depends on the schedule. On GPUs the time is device time.
 */
function measureCollectives(options: MeasureCollectivesOptions): CollectiveEntry[] {
  const { group, device } = options;
  const { size, rank } = group;
  using work = new Work(device);
  const zeros = (bytes: number, parts = 1): Tensor =>
    Tensor.zeros({ shape: [(Math.ceil(bytes / 4 / size) * size) / parts], dtype: 'float32', device });
  const timed = (name: CollectiveEntry['name'], makeCall: (bytes: number) => Call): CollectiveEntry =>
    timedCollective({ ...options, name, makeCall });
  return [
    timed('all-reduce', (bytes) => {
      const tensor = zeros(bytes);
      return { tensors: [tensor], work, run: () => group.allReduce(tensor).wait() };
    }),
    timed('all-gather', (bytes) => {
      const output = zeros(bytes);
      const input = zeros(bytes, size);
      return { tensors: [output, input], work, run: () => group.allGather({ output, input }).wait() };
    }),
    timed('reduce-scatter', (bytes) => {
      const input = zeros(bytes);
      const output = zeros(bytes, size);
      return { tensors: [output, input], work, run: () => group.reduceScatter({ output, input }).wait() };
    }),
    timed('all-to-all', (bytes) => {
      const [output, input] = [zeros(bytes), zeros(bytes)];
      return { tensors: [output, input], work, run: () => group.allToAll({ output, input }).wait() };
    }),
    timed('message', (bytes) => {
      const tensor = zeros(bytes);
      // pairs of neighbours send messages back and forth. A round trip is two messages, so half of its time
      // is recorded
      const peer = rank % 2 === 0 ? rank + 1 : rank - 1;
      const hasPeer = peer < size;
      const send = (): void => group.send(tensor, { to: peer }).wait();
      const receive = (): void => group.receive(tensor, { from: peer }).wait();
      const both = rank % 2 === 0 ? [send, receive] : [receive, send];
      const run = (): void => {
        if (hasPeer) for (const each of both) each();
      };
      return { tensors: [tensor], run, part: 0.5 };
    }),
  ];
}

/** Work that each rank runs before communication, to simulate a rank's computation. */
class Work {
  readonly #left: Tensor;
  readonly #right: Tensor;
  readonly #output: Tensor;

  constructor(device: Device) {
    this.#left = Tensor.zeros({ shape: [256, 512], dtype: 'float32', device });
    this.#right = Tensor.zeros({ shape: [512, 512], dtype: 'float32', device });
    this.#output = Tensor.zeros({ shape: [256, 512], dtype: 'float32', device });
  }

  do(tensors: readonly Tensor[]): void {
    matmul({ left: this.#left, right: this.#right, output: this.#output });
    for (const tensor of tensors) tensor.zero();
  }

  [Symbol.dispose](): void {
    for (const tensor of [this.#left, this.#right, this.#output]) tensor.dispose();
  }
}

interface Call {
  readonly tensors: readonly Tensor[];
  /** Work that runs before each timed call. */
  readonly work?: Work;
  readonly run: () => void;
  /** The fraction of a call's time that is recorded. Default: 1. */
  readonly part?: number;
}

interface TimedCollectiveOptions extends MeasureCollectivesOptions {
  readonly name: CollectiveEntry['name'];
  readonly makeCall: (bytes: number) => Call;
}

function timedCollective(options: TimedCollectiveOptions): CollectiveEntry {
  const { group, device, collectiveBytes, name, makeCall } = options;
  const measureSeconds = device === 'cuda' ? secondsOfGpu : secondsOfHost;
  const points = collectiveBytes.map((bytes) => {
    const { tensors, work, run, part = 1 } = makeCall(bytes);
    const numCalls = bytes > 1e6 ? 8 : 40;
    const seconds: number[] = [];
    for (let call = -2; call < numCalls; call++) {
      group.barrier().wait();
      work?.do(tensors);
      const taken = measureSeconds(run);
      if (call >= 0) seconds.push(part * taken);
    }
    for (const tensor of tensors) tensor.dispose();
    const { median, spread } = medianWithSpread(seconds);
    return { bytes, seconds: Math.max(median, 1e-9), spread: Number(spread.toPrecision(3)) };
  });
  return { name, points };
}

function secondsOfHost(run: () => void): number {
  const start = performance.now();
  run();
  return (performance.now() - start) / 1000;
}

function secondsOfGpu(run: () => void): number {
  using start = new DeviceMark('cuda');
  run();
  using end = new DeviceMark('cuda');
  return end.millisecondsSince(start) / 1000;
}
