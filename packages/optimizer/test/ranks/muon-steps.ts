import { Parameter } from '@mtl/autograd';
import type { World } from '@mtl/comm';
import { CallbackWork } from '@mtl/comm/testing';
import { countElements } from '@mtl/kernels';
import { ProcessMesh, type Slice } from '@mtl/layout';
import {
  Adamw,
  createStores,
  listOwnedParts,
  ModelOptimizer,
  Muon,
  type MuonOptions,
  muonWith,
  type ParameterStore,
} from '../../src/index.js';

/** Results of torch.optim.Muon, from tooling/fixtures/muon.py. */
export interface MuonFixture {
  readonly settings: { readonly lr: number; readonly weight_decay: number; readonly momentum: number };
  readonly shapes: Readonly<
    Record<string, { readonly shape: number[]; readonly boxes?: readonly (readonly [number, number])[][] }>
  >;
  readonly cases: ReadonlyArray<
    Pick<MuonOptions, 'nesterov' | 'scaleMode' | 'extraScaleFactor' | 'dtype'> & {
      /** Values of the parameters by name, after 1 and after 100 steps. */
      readonly after: Readonly<Record<string, Readonly<Record<string, readonly number[]>>>>;
    }
  >;
}

export interface MuonStepsArgument {
  readonly tp: number;
  readonly dp: number;
  readonly distributed: boolean;
  readonly dtype: 'float32' | 'bfloat16';
  readonly fixture: MuonFixture;
  /** A case of the fixture. */
  readonly case: number;
  readonly numSteps: number;
  readonly splitQkv?: boolean;
  /** This step has an infinite gradient on rank 0. */
  readonly overflowAt?: number;
  /** Fault injection: this rank's directions are not gathered. */
  readonly forgetGather?: boolean;
}

export interface MuonStepsResult {
  /** Master values of each parameter where this rank owns them, by position in the whole parameter. */
  readonly values: Readonly<Record<string, readonly (readonly [position: number, value: number])[]>>;
  /** Elements of this rank's states by name. */
  readonly stateSizes: Readonly<Record<string, number>>;
  readonly gradientsAreClear: boolean;
}

/** The dimension of each parameter that tensor-parallel ranks share. */
const shardedDims: Readonly<Record<string, number>> = { tall: 0, wide: 1, square: 0, qkv: 0, gated: 1 };

/** Returns a gradient as tooling/fixtures/muon.py computes it. */
const fixtureValue = (step: number, parameter: number, position: number): number =>
  Math.sin(step * 1.3 + parameter * 7 + position * position * 0.37);

export default (world: World, all: readonly MuonStepsArgument[]): MuonStepsResult[] =>
  all.map((argument) => muonSteps(world, argument));

/** Runs Muon, with AdamW for a bias after each matrix, on this rank's shards of the fixture's parameters. */
function muonSteps(world: World, argument: MuonStepsArgument): MuonStepsResult {
  const { tp, dp, distributed, dtype, splitQkv = true } = argument;
  const { settings, shapes, cases } = argument.fixture;
  const { after: _, ...options } = cases[argument.case]!;
  const mesh = new ProcessMesh({ tp, dp });
  const coordinates = mesh.coordinatesOf(world.rank);
  const groups = {
    tp: world.createGroup({ name: 'tp', ranks: mesh.groupOf(world.rank, ['tp']) }),
    dp: world.createGroup({ name: 'dp', ranks: mesh.groupOf(world.rank, ['dp']) }),
    world: world.group,
  };
  const matrices = Object.entries(shapes).map(([name, { shape, boxes }]) => {
    const slices = shape.map((size, dim): Slice => {
      if (dim !== shardedDims[name]) return { start: 0, end: size };
      return { start: (coordinates.tp * size) / tp, end: ((coordinates.tp + 1) * size) / tp };
    });
    const whole = shape.map((size): [number, number] => [0, size]);
    return new Parameter({
      name,
      globalShape: shape,
      slices,
      placement: { sharded: shardedDims[name] === undefined ? {} : { tp: shardedDims[name] } },
      matrices: (boxes ?? [whole]).map((box) => box.map(([start, end]) => ({ start, end }))),
      initialization: { kind: 'zeros' },
    });
  });
  const biases = matrices.map(
    ({ name }) =>
      new Parameter({ name: `${name}.bias`, globalShape: [70], initialization: { kind: 'zeros' } }),
  );
  const parameters = matrices.flatMap((matrix, index) => [matrix, biases[index]!]);
  const kind = distributed ? 'zero1' : 'replicated';
  const stores = createStores(parameters, { kind, device: 'cpu', dtype, groups, bucketBytes: 900 });
  const store = stores[0]!;
  const optimizer = new ModelOptimizer(stores, {
    optimizer: muonWith({
      muon: new Muon({
        ...options,
        momentum: settings.momentum,
        coefficientType: 'simple',
        numSteps: 5,
        splitQkv,
      }),
      auxiliary: new Adamw({ beta1: 0.9, beta2: 0.95, epsilon: 1e-8 }),
    }),
    weightDecay: settings.weight_decay,
    clipGrad: 0,
    groups,
    overlapGradientReduction: distributed,
    overlapParameterGather: distributed,
  });
  if (argument.forgetGather) {
    const { dp } = groups;
    const allGather = dp.allGather.bind(dp);
    dp.allGather = (tensors) => {
      if (tensors.output.dtype === 'float32' && dtype === 'bfloat16') return new CallbackWork();
      return allGather(tensors);
    };
  }
  writeInitialValues(store, matrices);
  optimizer.refreshModel();
  for (let step = 1; step <= argument.numSteps; step++) {
    matrices.forEach((parameter, index) => {
      const values = listPositions(parameter).map((position) => fixtureValue(step, index, position) / dp);
      if (step === argument.overflowAt && world.rank === 0) values[1] = Number.POSITIVE_INFINITY;
      parameter.mainGradient.write(Float32Array.from(values));
    });
    for (const bias of biases) bias.mainGradient.write(new Float32Array(70).fill(1 / dp));
    optimizer.step({ learningRate: settings.lr });
  }
  for (const { data } of parameters) data.dim(0);
  const values = store.ranges.map((range) => {
    const positions = listPositions(range.parameter);
    const own = listOwnedParts(store, range).flatMap((part) => {
      using master = store.master(part);
      return master.toArray().map((value, at) => [positions[part.start - range.start + at]!, value] as const);
    });
    return [range.parameter.name, own] as const;
  });
  const stateSizes = optimizer.state.map(({ name, buffer }) => [name, buffer.size] as const);
  const result = {
    values: Object.fromEntries(values),
    stateSizes: Object.fromEntries(stateSizes),
    gradientsAreClear: parameters.every(({ mainGradient }) =>
      mainGradient.toArray().every((value) => value === 0),
    ),
  };
  optimizer.dispose();
  return result;
}

function writeInitialValues(store: ParameterStore, matrices: readonly Parameter[]): void {
  for (const range of store.ranges) {
    const index = matrices.indexOf(range.parameter);
    if (index === -1) continue;
    const values = listPositions(range.parameter).map((position) => fixtureValue(0, index, position));
    for (const part of listOwnedParts(store, range)) {
      using master = store.master(part);
      master.write(Float32Array.from(values.slice(part.start - range.start, part.end - range.start)));
    }
  }
}

/** Positions of a rank's elements in the flattened whole tensor. */
function listPositions({ slices, globalShape, shape, size }: Parameter): number[] {
  return Array.from({ length: size }, (_, index) => {
    let [position, rest] = [0, index];
    shape.forEach((__, dim) => {
      const inner = countElements(shape.slice(dim + 1));
      position += (slices[dim]!.start + Math.floor(rest / inner)) * countElements(globalShape.slice(dim + 1));
      rest %= inner;
    });
    return position;
  });
}
