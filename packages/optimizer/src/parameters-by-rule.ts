import type { Parameter } from '@mtl/autograd';
import { UsageError } from '@mtl/errors';
import { Tensor } from '@mtl/kernels';
import { hasScales, type KeptValues, plainValues, scaledValues } from './kept-values.js';
import {
  type BoundOptimizer,
  describeParameterGroup,
  type Optimizer,
  type OptimizerRange,
  type OptimizerState,
  type ParameterGroup,
} from './optimizer.js';
import { type FlatRange, intersectRanges, type ParameterRange } from './store/flat-layout.js';
import type { ParallelGroups } from './store/parallel-groups.js';
import type { ParameterStore } from './store/parameter-store.js';
import { WholeMatrices } from './whole-matrices.js';

/** Contiguous elements of an owned range that have the same update rule. */
export interface RunOfParameters extends FlatRange {
  /** The number of the rule. */
  readonly rule: number;
  /** The index of this run among the rule's runs. */
  readonly index: number;
  /** The parameters with elements in the run. */
  readonly ranges: readonly ParameterRange[];
  /** The index of the first element in the rule's states, which contain only this rule's runs. */
  readonly stateStart: number;
  /** The index of the first segment among all segments in the rule's runs. */
  readonly segmentStart: number;
}

/** Returns how many segments a run has: one per parameter, or one for a run that is only padding. */
const countSegments = ({ ranges }: Pick<RunOfParameters, 'ranges'>): number => Math.max(1, ranges.length);

/** How parameters are updated. Parameters for which the same object was chosen are updated together. */
export interface ParameterUpdate {
  readonly optimizer: Optimizer;
  /** True if the parameters use a step's decoupled learning rate. */
  readonly isDecoupled: boolean;
}

interface RunsOfRule extends ParameterUpdate {
  readonly runs: readonly RunOfParameters[];
  /** Elements of the runs. */
  readonly stateSize: number;
  /** Segments of the runs. */
  readonly numSegments: number;
  /** Returns true if the rule updates `parameter`. */
  readonly appliesTo: (parameter: Parameter) => boolean;
}

/**
 * Divides each owned range into runs of parameters with the same rule. Padding belongs to the run of the
 * parameter before it. If all parameters have the same rule, the runs are equal to the owned ranges.
 */
export function runsByRule(
  { owned, ranges }: ParameterStore,
  chooseRule: (parameter: Parameter) => ParameterUpdate,
): { readonly rules: readonly RunsOfRule[]; readonly runs: readonly (readonly RunOfParameters[])[] } {
  const updates = [...new Set(ranges.map(({ parameter }) => chooseRule(parameter)))];
  const rules = updates.map((update) => ({
    optimizer: update.optimizer,
    isDecoupled: update.isDecoupled,
    runs: [] as RunOfParameters[],
    stateSize: 0,
    numSegments: 0,
    appliesTo: (parameter: Parameter) => chooseRule(parameter) === update,
  }));
  const runs = owned.map((held) =>
    groupsIn(held, { ranges, chooseRule }).map((group, number, groups) => {
      const start = number === 0 ? held.start : group.start;
      const end = groups[number + 1]?.start ?? held.end;
      const ofRule = Math.max(0, updates.indexOf(group.rule ?? updates[0]!));
      const rule = rules[ofRule]!;
      const index = rule.runs.length;
      const run = {
        start,
        end,
        rule: ofRule,
        index,
        ranges: group.ranges,
        stateStart: rule.stateSize,
        segmentStart: rule.numSegments,
      };
      rule.runs.push(run);
      rule.stateSize += end - start;
      rule.numSegments += countSegments(run);
      return run;
    }),
  );
  return { rules, runs };
}

interface Group {
  /** The update rule for the group's parameters. Undefined if the group is only padding. */
  readonly rule: ParameterUpdate | undefined;
  readonly start: number;
  readonly ranges: ParameterRange[];
}

function groupsIn(
  held: FlatRange,
  options: {
    readonly ranges: readonly ParameterRange[];
    readonly chooseRule: (parameter: Parameter) => ParameterUpdate;
  },
): Group[] {
  const { ranges, chooseRule } = options;
  const groups: Group[] = [];
  for (const range of ranges) {
    const common = intersectRanges(held, range);
    if (common === undefined) continue;
    const rule = chooseRule(range.parameter);
    if (groups.at(-1)?.rule === rule) groups.at(-1)!.ranges.push(range);
    else groups.push({ rule, start: common.start, ranges: [range] });
  }
  return groups.length > 0 || held.end === held.start
    ? groups
    : [{ rule: undefined, start: held.start, ranges: [] }];
}

/** A slice of a parameter whose state is stored on this rank. */
interface StateRange extends FlatRange {
  readonly values: KeptValues;
}

/** One state of all parameters with the same update rule, under its name in checkpoints. */
export interface OptimizerStateTensor extends OptimizerState {
  /** The store of the parameters. */
  readonly store: ParameterStore;
  readonly buffer: Tensor;
  /** The factors of the segments. Undefined if the dtype has no scales. */
  readonly scales: Tensor | undefined;
  /**
   * Returns the slices of a parameter that this rank stores, or undefined if the parameter has a different
   * rule.
   */
  readonly listParts: (range: ParameterRange) => readonly StateRange[] | undefined;
}

/** The group of padding without a parameter. */
const paddingGroup: ParameterGroup = { decays: false, kind: 'vector', fanIn: 1, fanOut: 1 };

/** An update rule together with the parameters in a store that it updates on this rank, and their states. */
export class RuleOfParameters {
  readonly optimizer: BoundOptimizer;
  /** True if the parameters use a step's decoupled learning rate. */
  readonly isDecoupled: boolean;
  readonly states: readonly OptimizerStateTensor[];
  readonly matrices: WholeMatrices;
  readonly #ranges: readonly OptimizerRange[];

  constructor(
    { optimizer, isDecoupled, runs, stateSize, numSegments, appliesTo }: RunsOfRule,
    { store, groups }: { readonly store: ParameterStore; readonly groups: ParallelGroups },
  ) {
    const { device } = store;
    checkLayout(optimizer, store);
    this.states = optimizer.states.map(({ name, dtype }) => {
      const buffer = Tensor.zeros({ shape: [stateSize], dtype, device });
      const scales = hasScales(dtype)
        ? Tensor.zeros({ shape: [numSegments], dtype: 'float32', device })
        : undefined;
      const listParts = (range: ParameterRange): StateRange[] | undefined =>
        appliesTo(range.parameter) ? partsIn(runs, { range, buffer, scales }) : undefined;
      return { name, dtype, store, buffer, scales, listParts };
    });
    this.isDecoupled = isDecoupled;
    this.matrices = new WholeMatrices(store, { groups, isRead: appliesTo });
    this.#ranges = runs.map((run) => this.#makeRange(run, store));
    this.optimizer = optimizer.bind(this.#ranges, { device, matrices: this.matrices });
  }

  dispose(): void {
    for (const { parameter, remainder, modelParameter, gradient, states, scales } of this.#ranges) {
      const tensors = [parameter, remainder, modelParameter, gradient, ...states, ...scales];
      for (const tensor of tensors) tensor?.dispose();
    }
    const buffers = this.states.flatMap(({ buffer, scales }) => [buffer, scales]);
    for (const part of [this.optimizer, this.matrices, ...buffers]) part?.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  #makeRange(run: RunOfParameters, store: ParameterStore): OptimizerRange {
    const { start, end, stateStart, segmentStart } = run;
    const { dtype, storesRemainders } = store;
    const shape = [end - start];
    const segments = run.ranges.map((range) => {
      const common = intersectRanges(run, range)!;
      return { end: common.end - start, group: describeParameterGroup(range.parameter), range };
    });
    return {
      start,
      parameter: storesRemainders ? store.model(run) : store.master(run),
      remainder: storesRemainders ? store.remainder(run) : undefined,
      states: this.states.map(({ buffer }) => buffer.view({ offset: stateStart, shape })),
      scales: this.states.map(({ scales }) =>
        scales?.view({ offset: segmentStart, shape: [countSegments(run)] }),
      ),
      modelParameter: dtype === 'float32' || storesRemainders ? undefined : store.model(run),
      gradient: store.gradient(run),
      segments: segments.length > 0 ? segments : [{ end: end - start, group: paddingGroup }],
    };
  }
}

/** Rejects a store whose values or gradients the rule cannot use. */
function checkLayout(
  { isPrecisionAware = false }: Optimizer,
  { storesRemainders, gradientDtype }: ParameterStore,
): void {
  if (isPrecisionAware || (!storesRemainders && gradientDtype === 'float32')) return;
  const [what, option] = storesRemainders
    ? ['values with remainders', 'storesRemainders']
    : [`gradients in ${gradientDtype}`, 'gradientDtype'];
  throw new UsageError('MTL_OPTIMIZER_STATE', `an update rule over float32 alone, and a store of ${what}`, {
    expected: 'a rule with isPrecisionAware, such as Adamw',
    remedy: `leave ${option} of createStores out`,
  });
}

function partsIn(
  runs: readonly RunOfParameters[],
  {
    range,
    buffer,
    scales,
  }: { readonly range: ParameterRange } & Pick<OptimizerStateTensor, 'buffer' | 'scales'>,
): StateRange[] {
  return runs.flatMap((run) => {
    const common = intersectRanges(run, range);
    if (common === undefined) return [];
    const start = run.stateStart + common.start - run.start;
    const kept = { buffer, start, size: common.end - common.start };
    const index = run.segmentStart + run.ranges.indexOf(range);
    return [
      { ...common, values: scales === undefined ? plainValues(kept) : scaledValues(kept, { scales, index }) },
    ];
  });
}
