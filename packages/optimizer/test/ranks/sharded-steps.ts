import { Parameter, ParameterUnit } from '@mtl/autograd';
import type { ProcessGroup, World } from '@mtl/comm';
import { CallbackWork } from '@mtl/comm/testing';
import { memoryStatistics } from '@mtl/kernels';
import { type GroupDeclaration, listMembers, ProcessMesh, type Slice } from '@mtl/layout';
import { AdamwOptimizer, createStores, type StoreName } from '../../src/index.js';
import { type Trace, traceGroup } from './traced-group.js';

/** A training run of a few steps. Fields from `lostReduction` on inject faults. */
export interface ShardedStepsArgument {
  readonly dtype: 'float32' | 'bfloat16';
  readonly tp: number;
  readonly dp: number;
  readonly distributed: boolean;
  readonly overlap: boolean;
  /** The kind of the store. Default: `zero1` if distributed, else `replicated`. */
  readonly kind?: StoreName;
  /** The instances that the data-parallel ranks form. Default 1. */
  readonly numInstances?: number;
  /** The micro-batches of a step. Default 2. */
  readonly numMicroBatches?: number;
  readonly numSteps: number;
  readonly bucketBytes: number;
  /** Rank 1 puts an infinite gradient into this step. */
  readonly overflowAt?: number;
  /** Reads a parameter that no unit is acquired for. */
  readonly forgetUnit?: boolean;
  /** Ends after the last step, without a forward pass that reads the parameters. */
  readonly endsAfterStep?: boolean;
  /** Throws the result of this reduction away. */
  readonly lostReduction?: number;
  /** Gradients are not summed over instances. */
  readonly forgetInstances?: boolean;
  /** Every rank takes its instance for the first one. */
  readonly countInstances?: boolean;
  /** Parameters do not say that they are replicated. */
  readonly countTwice?: boolean;
  /** Parameters do not say that their gradients are parts. */
  readonly forgetPartial?: boolean;
}

/** Results of a rank. */
export interface ShardedStepsResult {
  readonly norms: readonly number[];
  readonly skipped: readonly boolean[];
  /** Values of the model by parameter and global position. */
  readonly model: ReadonlyArray<readonly (readonly [position: number, value: number])[]>;
  /** Bits of the whole model buffer. */
  readonly modelBits: Uint8Array;
  readonly gradientsAreClear: boolean;
  /** Elements of this rank's float32 master values and moments. */
  readonly stateSizes: readonly number[];
  /** The number of ranges that this rank updates. */
  readonly numOwned: number;
  /** The operations of data-parallel groups, between 'backward', 'step' and 'forward'. */
  readonly trace: Trace;
  /** Bytes that all ranks of this process hold, measured by the allocator. */
  readonly bytesInUse: number;
}

const layers: ReadonlyArray<{ name: string; shape: [number, number] | [number]; sharded: boolean }> = [
  { name: 'table', shape: [48, 6], sharded: true },
  { name: 'norm.0', shape: [6], sharded: false },
  { name: 'up.0', shape: [20, 6], sharded: true },
  { name: 'norm.1', shape: [6], sharded: false },
  { name: 'up.1', shape: [20, 6], sharded: true },
  { name: 'bias', shape: [70], sharded: false },
];

/** Returns an element of the gradient of the whole batch. */
export const makeGradient = (step: number, parameter: number, position: number): number =>
  Math.sin(step * 31 + parameter * 7 + position);

export default (world: World, all: readonly ShardedStepsArgument[]): ShardedStepsResult[] =>
  all.map((argument) => shardedSteps(world, argument));

/**
 * Runs AdamW on this rank's shards of a handful of parameters, with gradients that add up to `makeGradient`.
 */
function shardedSteps(world: World, argument: ShardedStepsArgument): ShardedStepsResult {
  const { tp, dp, distributed, overlap, numSteps } = argument;
  const mesh = new ProcessMesh({ tp, dp });
  const { tp: tpRank } = mesh.coordinatesOf(world.rank);
  const trace: Trace = [];
  const open = (name: string, declaration: GroupDeclaration): ProcessGroup =>
    world.createGroup({ name, ranks: listMembers(declaration, { mesh, rank: world.rank }) });
  const { numInstances = 1, countInstances, forgetInstances } = argument;
  const block = { axes: ['dp'], blockSize: dp / numInstances } as const;
  const instances =
    numInstances === 1
      ? undefined
      : { dense: open('dense', block), dpInstances: open('dpInstances', { ...block, across: true }) };
  const groups = {
    tp: open('tp', ['tp']),
    dp: open('dp', ['dp']),
    ...instances,
    world: world.group,
  };
  traceGroup(instances?.dense ?? groups.dp, trace, { lostReduction: argument.lostReduction });
  if (instances !== undefined) {
    traceGroup(instances.dpInstances, trace, { reduction: 'sum over instances' });
  }
  const parameters = layers.map(({ name, shape, sharded }) => {
    const rows = shape[0] / (sharded ? tp : 1);
    const first: Slice = sharded
      ? { start: tpRank * rows, end: (tpRank + 1) * rows }
      : { start: 0, end: rows };
    const parameter = new Parameter({
      name,
      globalShape: shape,
      slices: [first, ...shape.slice(1).map((size) => ({ start: 0, end: size }))],
      placement: { sharded: sharded ? { tp: 0 } : {}, rows: argument.forgetPartial ? [] : ['tp'] },
      initialization: { kind: 'normal', standardDeviation: 1 },
    });
    return argument.countTwice ? Object.assign(parameter, { copiedOver: [] }) : parameter;
  });
  world.group.barrier().wait();
  const before = memoryStatistics('cpu').bytesInUse;
  world.group.barrier().wait();
  const { dtype, bucketBytes, kind = distributed ? 'zero1' : 'replicated' } = argument;
  // units of two parameters each, except for the last
  const units = [0, 2, 4].map((first) => new ParameterUnit(parameters.slice(first, first + 2)));
  const common = { device: 'cpu', dtype, groups, bucketBytes, seed: 4 } as const;
  const stores = createStores(parameters, { ...common, kind, units });
  const optimizer = new AdamwOptimizer(stores, {
    beta1: 0.9,
    beta2: 0.95,
    epsilon: 1e-8,
    weightDecay: 0.1,
    clipGrad: 1,
    groups: {
      ...groups,
      ...(forgetInstances && { dpInstances: withFault(instances!.dpInstances, { allReduce: doNothing }) }),
      ...(countInstances && { dpInstances: withFault(instances!.dpInstances, { rank: 0 }) }),
    },
    overlapGradientReduction: overlap,
    overlapParameterGather: overlap,
  });
  world.group.barrier().wait();
  const bytesInUse = memoryStatistics('cpu').bytesInUse - before;
  world.group.barrier().wait();
  const [norms, skipped]: [number[], boolean[]] = [[], []];
  for (let step = 1; step <= numSteps; step++) {
    trace.push('backward');
    addGradients(units, { parameters, step, rank: world.rank, optimizer, argument });
    trace.push('step');
    const result = optimizer.step({ learningRate: 0.01 });
    norms.push(result.gradientNorm);
    skipped.push(result.skipped);
    if (step === numSteps && argument.endsAfterStep) break;
    trace.push('forward');
    for (const unit of units) withUnit(unit, () => unit.parameters.map(({ data }) => data.dim(0)));
    if (argument.forgetUnit) parameters[0]!.data.dim(0);
  }
  const read = argument.endsAfterStep
    ? []
    : units.flatMap((unit) =>
        withUnit(unit, () => unit.parameters.map(({ data }) => [data.toArray(), data.read()] as const)),
      );
  const model = read.map(([values], index) =>
    listPositions(parameters[index]!).map((position, at) => [position, values[at]!] as const),
  );
  const ownedSize = stores[0]!.owned.reduce((sum, { start, end }) => sum + end - start, 0);
  const result: ShardedStepsResult = {
    norms,
    skipped,
    model,
    bytesInUse,
    trace,
    numOwned: stores[0]!.owned.length,
    modelBits: Buffer.concat(read.map(([, bits]) => new Uint8Array(bits.buffer))),
    gradientsAreClear: parameters.every(({ mainGradient }) =>
      mainGradient.toArray().every((value) => value === 0),
    ),
    stateSizes: [ownedSize, ...optimizer.state.map(({ buffer }) => buffer.size)],
  };
  optimizer.dispose();
  return result;
}

const doNothing = () => new CallbackWork({ wait: () => {} });

/** Returns a group with some members replaced. */
const withFault = (group: ProcessGroup, fault: Partial<ProcessGroup>): ProcessGroup =>
  new Proxy(group, {
    get: (target, property) => {
      const value: unknown = Reflect.get(property in fault ? fault : target, property);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });

/**
 * Adds the gradients of a step as backward does: from the last parameter on, unit by unit, ready after each
 * micro-batch.
 */
function addGradients(
  units: readonly ParameterUnit[],
  {
    parameters,
    step,
    rank,
    optimizer,
    argument: { tp, dp, forgetPartial, overflowAt, numMicroBatches = 2 },
  }: {
    readonly parameters: readonly Parameter[];
    readonly step: number;
    readonly rank: number;
    readonly optimizer: AdamwOptimizer;
    readonly argument: ShardedStepsArgument;
  },
): void {
  const add = (parameter: Parameter): void => {
    const index = parameters.indexOf(parameter);
    const parts = parameter.partialOver.length > 0 || (forgetPartial && !layers[index]!.sharded);
    const share = 1 / (numMicroBatches * dp * (parts ? tp : 1));
    const positions = listPositions(parameter);
    const values = parameter.mainGradient.read<'float32'>();
    positions.forEach((position, at) => {
      values[at]! += share * makeGradient(step, index, position);
    });
    if (step === overflowAt && rank === 1 && index === 2) values[3] = Number.POSITIVE_INFINITY;
    parameter.mainGradient.write(values);
    parameter.notifyGradientReady();
  };
  for (let microBatch = 0; microBatch < numMicroBatches; microBatch++) {
    if (microBatch === numMicroBatches - 1) optimizer.expectLastBackward();
    for (const unit of units.toReversed()) {
      withUnit(unit, () => {
        for (const parameter of unit.parameters.toReversed()) add(parameter);
      });
    }
  }
}

function withUnit<T>(unit: ParameterUnit, body: () => T): T {
  unit.acquire();
  try {
    return body();
  } finally {
    unit.release();
  }
}

/** Positions of a rank's elements in the flattened whole tensor; only first dimensions are sharded. */
function listPositions({ slices, size, globalShape }: Parameter): number[] {
  const inner = globalShape.slice(1).reduce((product, each) => product * each, 1);
  return Array.from({ length: size }, (_, index) => slices[0]!.start * inner + index);
}
