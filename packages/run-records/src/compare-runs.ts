import { type ComparableRun, comparableRun } from './comparable-run.js';
import { compareExpertLoads, type ExpertLoadComparison } from './compare-expert-loads.js';
import { type MetricsRecord, metricsPath, readMetricsRecords } from './metrics-records.js';
import type { RunInformation } from './read-run.js';

/** A value that differs between two runs. It is undefined for a run that does not have the value. */
export interface Difference {
  readonly name: string;
  readonly values: readonly [unknown, unknown];
}

/** A comparison of two runs' losses. */
export interface LossComparison {
  /** The number of steps that both runs have. */
  readonly commonSteps: number;
  /** The first common step with different losses, compared bit by bit; undefined if all losses are equal. */
  readonly firstDifference: number | undefined;
  /** The largest relative difference between the losses of a common step, and the iteration of this step. */
  readonly largest: { readonly iteration: number; readonly relative: number } | undefined;
  /** The losses at the last common step. */
  readonly last:
    | { readonly iteration: number; readonly losses: readonly [number | null, number | null] }
    | undefined;
  /** The losses at the last common evaluation. */
  readonly validation: LossComparison['last'];
}

export interface RunComparison {
  /**
   * The flags whose values differ between the last starts of the runs. Paths and flags that apply to only one
   * start, such as --exit-interval, are not compared. Files are compared by content.
   */
  readonly flags: readonly Difference[];
  /** Further differences between the last starts, such as commit, versions, threads, layout and datasets. */
  readonly conditions: readonly Difference[];
  readonly losses: LossComparison;
  /**
   * The comparison of expert loads; undefined if the runs have not reported loads for the same experts in the
   * same steps.
   */
  readonly experts: ExpertLoadComparison | undefined;
}

/** Compares the last starts and the loss curves of two runs. */
export function compareRuns(runs: readonly [RunInformation, RunInformation]): RunComparison {
  const [one, other] = runs.map(({ record }) => record && comparableRun(record)) as [Compared, Compared];
  const areResolved = one?.isResolved !== false && other?.isResolved !== false;
  const records = runs.map(({ directory }) => readMetricsRecords(metricsPath(directory)));
  const steps = commonLosses(records, undefined);
  return {
    flags: differences([one?.flags, other?.flags], { inBoth: !areResolved }),
    conditions: differences([one?.conditions, other?.conditions], { inBoth: false }),
    losses: compareLosses(steps, commonLosses(records, 'validation')),
    experts: compareExpertLoads(records, relativeDifferences(steps)),
  };
}

type Compared = ComparableRun | undefined;

/**
 * Returns the values that differ. If `inBoth` is true, compares only flags that both runs have. This is
 * necessary if one run records only the flags that the user gave, because the values of its other flags are
 * then unknown.
 */
function differences(
  [one = {}, other = {}]: readonly [ComparableRun['flags'] | undefined, ComparableRun['flags'] | undefined],
  { inBoth }: { readonly inBoth: boolean },
): Difference[] {
  const names = [...new Set([...Object.keys(one), ...Object.keys(other)])].sort();
  return names
    .filter((name) => keyIn(one, name) !== keyIn(other, name))
    .filter((name) => !inBoth || (name in one && name in other))
    .map((name) => ({ name, values: [one[name]?.shown, other[name]?.shown] }));
}

/**
 * Returns the key of the value `name`. The key of a missing value is `false`, because a missing switch is
 * off.
 */
const keyIn = (values: ComparableRun['flags'], name: string): string => values[name]?.key ?? 'false';

type LossesOfStep = NonNullable<LossComparison['last']>;

function compareLosses(steps: readonly LossesOfStep[], evaluations: readonly LossesOfStep[]): LossComparison {
  const different = steps.filter(({ losses: [one, other] }) => one !== other);
  return {
    commonSteps: steps.length,
    firstDifference: different[0]?.iteration,
    largest: relativeDifferences(different).reduce<LossComparison['largest']>(
      (most, next) => (most === undefined || next.relative > most.relative ? next : most),
      undefined,
    ),
    last: steps.at(-1),
    validation: evaluations.at(-1),
  };
}

/** Returns the relative differences between losses, for steps in which both are finite. */
const relativeDifferences = (steps: readonly LossesOfStep[]) =>
  steps.flatMap(({ iteration, losses: [one, other] }) =>
    one === null || other === null ? [] : [{ iteration, relative: Math.abs(one / other - 1) }],
  );

function commonLosses(
  [one, other]: readonly MetricsRecord[][],
  type: string | undefined,
): readonly LossesOfStep[] {
  const others = new Map(
    other!.filter((record) => record.type === type).map((record) => [record.iteration, record]),
  );
  return one!.flatMap((record) => {
    const match = record.type === type ? others.get(record.iteration) : undefined;
    if (match === undefined) return [];
    return [{ iteration: record.iteration, losses: [record.lm_loss, match.lm_loss] as const }];
  });
}
