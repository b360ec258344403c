import type { Parameter } from '@mtl/autograd';
import type { Optimizer } from './optimizer.js';
import { type FlatRange, intersectionOf, type ParameterRange } from './store/flat-layout.js';
import type { ParameterStore } from './store/parameter-store.js';

/** Elements of an owned range whose parameters, one after the other, have one update rule. */
export interface RunOfParameters extends FlatRange {
  /** The number of the rule. */
  readonly rule: number;
  /** Among the runs of its rule. */
  readonly index: number;
  /** The parameters of which it has elements. */
  readonly ranges: readonly ParameterRange[];
  /** Where it begins in the states of its rule, which hold nothing else. */
  readonly stateStart: number;
}

/** How a parameter is updated. Parameters with the same value, compared by identity, are updated together. */
export interface ParameterUpdate {
  readonly optimizer: Optimizer;
  /** Whether with the decoupled learning rate of a step. */
  readonly isDecoupled: boolean;
}

export interface RunsOfRule extends ParameterUpdate {
  readonly runs: readonly RunOfParameters[];
  /** Elements of the runs. */
  readonly stateSize: number;
  /** Whether it is the rule of a parameter. */
  readonly isRuleOf: (parameter: Parameter) => boolean;
}

/**
 * Divides the owned ranges into runs of parameters with one rule, the padding after a parameter with it.
 * Where all have one rule, the runs are the owned ranges.
 */
export function runsByRule(
  { owned, ranges }: ParameterStore,
  ruleOf: (parameter: Parameter) => ParameterUpdate,
): { readonly rules: readonly RunsOfRule[]; readonly runs: readonly (readonly RunOfParameters[])[] } {
  const updates = [...new Set(ranges.map(({ parameter }) => ruleOf(parameter)))];
  const rules = updates.map((update) => ({
    optimizer: update.optimizer,
    isDecoupled: update.isDecoupled,
    runs: [] as RunOfParameters[],
    stateSize: 0,
    isRuleOf: (parameter: Parameter) => ruleOf(parameter) === update,
  }));
  const runs = owned.map((held) =>
    groupsIn(held, { ranges, ruleOf }).map((group, number, groups) => {
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
      };
      rule.runs.push(run);
      rule.stateSize += end - start;
      return run;
    }),
  );
  return { rules, runs };
}

interface Group {
  /** Of its first parameter; absent where there is padding only. */
  readonly rule: ParameterUpdate | undefined;
  readonly start: number;
  readonly ranges: ParameterRange[];
}

function groupsIn(
  held: FlatRange,
  options: {
    readonly ranges: readonly ParameterRange[];
    readonly ruleOf: (parameter: Parameter) => ParameterUpdate;
  },
): Group[] {
  const { ranges, ruleOf } = options;
  const groups: Group[] = [];
  for (const range of ranges) {
    const common = intersectionOf(held, range);
    if (common === undefined) continue;
    const rule = ruleOf(range.parameter);
    if (groups.at(-1)?.rule === rule) groups.at(-1)!.ranges.push(range);
    else groups.push({ rule, start: common.start, ranges: [range] });
  }
  return groups.length > 0 || held.end === held.start
    ? groups
    : [{ rule: undefined, start: held.start, ranges: [] }];
}
