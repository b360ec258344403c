import { Tensor } from '@mtl/kernels';
import type { BoundOptimizer, OptimizerRange, OptimizerState } from './optimizer.js';
import type { ParallelGroups } from './parallel-groups.js';
import { type ParameterGroup, parameterGroupOf } from './parameter-group.js';
import type { RunOfParameters, RunsOfRule } from './runs-by-rule.js';
import { type FlatRange, intersectionOf, type ParameterRange } from './store/flat-layout.js';
import type { ParameterStore } from './store/parameter-store.js';
import { WholeMatrices } from './whole-matrices.js';

/** Part of a parameter whose state this rank holds. */
export interface StatePart extends FlatRange {
  /** Where it begins in the state's buffer. */
  readonly stateStart: number;
}

/** A named state of the parameters of one update rule, for checkpoints. */
export interface OptimizerStateTensor extends OptimizerState {
  /** The store of its parameters. */
  readonly store: ParameterStore;
  readonly buffer: Tensor;
  /** The parts of a parameter that are here; undefined where its rule does not keep the state. */
  readonly partsOf: (range: ParameterRange) => readonly StatePart[] | undefined;
}

/** Padding alone has no parameter. */
const paddingGroup: ParameterGroup = { decays: false, kind: 'vector', fanIn: 1, fanOut: 1 };

/** An update rule with the parameters of a store that it updates on this rank, and their states. */
export class RuleOfParameters {
  readonly optimizer: BoundOptimizer;
  /** Whether its parameters are updated with the decoupled learning rate of a step. */
  readonly isDecoupled: boolean;
  readonly states: readonly OptimizerStateTensor[];
  readonly matrices: WholeMatrices;
  readonly #ranges: readonly OptimizerRange[];

  constructor(
    { optimizer, isDecoupled, runs, stateSize, isRuleOf }: RunsOfRule,
    { store, groups }: { readonly store: ParameterStore; readonly groups: ParallelGroups },
  ) {
    const { device } = store;
    const partsOf = (range: ParameterRange): StatePart[] | undefined =>
      isRuleOf(range.parameter) ? partsIn(runs, range) : undefined;
    this.states = optimizer.states.map(({ name, dtype }) => {
      const buffer = Tensor.zeros({ shape: [stateSize], dtype, device });
      return { name, dtype, store, buffer, partsOf };
    });
    this.isDecoupled = isDecoupled;
    this.matrices = new WholeMatrices(store, { groups, isRead: isRuleOf });
    this.#ranges = runs.map((run) => this.#rangeOf(run, store));
    this.optimizer = optimizer.bind(this.#ranges, { device, matrices: this.matrices });
  }

  dispose(): void {
    for (const { parameter, modelParameter, gradient, states } of this.#ranges) {
      for (const tensor of [parameter, modelParameter, gradient, ...states]) tensor?.dispose();
    }
    for (const part of [this.optimizer, this.matrices, ...this.states.map(({ buffer }) => buffer)])
      part.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  #rangeOf(run: RunOfParameters, store: ParameterStore): OptimizerRange {
    const { start, end, stateStart } = run;
    const shape = [end - start];
    const segments = run.ranges.map((range) => {
      const common = intersectionOf(run, range)!;
      return { end: common.end - start, group: parameterGroupOf(range.parameter), range };
    });
    return {
      start,
      parameter: store.master(run),
      states: this.states.map(({ buffer }) => buffer.view({ offset: stateStart, shape })),
      modelParameter: store.dtype === 'float32' ? undefined : store.model(run),
      gradient: store.gradient(run),
      segments: segments.length > 0 ? segments : [{ end: end - start, group: paddingGroup }],
    };
  }
}

function partsIn(runs: readonly RunOfParameters[], range: ParameterRange): StatePart[] {
  return runs.flatMap((run) => {
    const common = intersectionOf(run, range);
    return common === undefined ? [] : [{ ...common, stateStart: run.stateStart + common.start - run.start }];
  });
}
