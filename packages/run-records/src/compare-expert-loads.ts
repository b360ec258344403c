import type { MetricsRecord } from './metrics-records.js';

/**
 * A comparison of the expert loads in two runs. An expert's load is the number of rows that it got in a
 * layer.
 */
export interface ExpertLoadComparison {
  /** The number of load reports that both runs have for the same steps. */
  readonly commonReports: number;
  /**
   * The first report in which loads differ because tokens were routed to different experts. Undefined if all
   * reports are equal.
   */
  readonly firstDifference:
    | {
        /** The first step of the report. It equals `lastStep` if every step is reported. */
        readonly firstStep: number;
        readonly lastStep: number;
        /**
         * The layers whose loads differ, in the order of the model. `numChoices` is the smallest number of
         * changed expert assignments that explains the difference.
         */
        readonly layers: ReadonlyArray<{ readonly layer: string; readonly numChoices: number }>;
        /**
         * The largest relative difference between the losses of the same step, in the steps before the
         * report; undefined if there is no such step.
         */
        readonly largestBefore: number | undefined;
        /**
         * The largest relative difference between the losses of the same step, from the first step of the
         * report on.
         */
        readonly largestAfter: number | undefined;
      }
    | undefined;
}

/** The reported loads in the steps from `firstStep` to `lastStep`. */
interface LoadReport {
  readonly firstStep: number;
  readonly lastStep: number;
  readonly layers: readonly string[];
  /** The number of rows, indexed by layer and then by expert. */
  readonly loads: ReadonlyArray<readonly number[]>;
}

/**
 * Compares the loads that two runs have reported for the same steps.
 *
 * @param losses relative differences between the losses of the steps that both runs have
 * @returns undefined if the runs have no common reports, as for models without experts
 */
export function compareExpertLoads(
  [one, other]: readonly MetricsRecord[][],
  losses: ReadonlyArray<{ readonly iteration: number; readonly relative: number }>,
): ExpertLoadComparison | undefined {
  const others = new Map(readReports(other!).map((report) => [formatSteps(report), report]));
  const pairs = readReports(one!).flatMap((report) => {
    const match = others.get(formatSteps(report));
    return match !== undefined && haveSameExperts(report, match) ? [[report, match] as const] : [];
  });
  if (pairs.length === 0) return undefined;
  const firstDifference = pairs
    .map(([report, match]) => ({ report, layers: movedChoices(report, match) }))
    .find(({ layers }) => layers.length > 0);
  if (firstDifference === undefined) return { commonReports: pairs.length, firstDifference };
  const { report, layers } = firstDifference;
  const { firstStep, lastStep } = report;
  const largest = (isWanted: (iteration: number) => boolean): number | undefined =>
    losses.reduce<number | undefined>(
      (most, { iteration, relative }) =>
        isWanted(iteration) ? Math.max(most ?? Number.NEGATIVE_INFINITY, relative) : most,
      undefined,
    );
  return {
    commonReports: pairs.length,
    firstDifference: {
      firstStep,
      lastStep,
      layers,
      largestBefore: largest((iteration) => iteration < firstStep),
      largestAfter: largest((iteration) => iteration >= firstStep),
    },
  };
}

function readReports(records: readonly MetricsRecord[]): readonly LoadReport[] {
  return records.flatMap(({ type, iteration, steps, layers, loads }) => {
    if (type !== 'experts' || !Number.isInteger(steps)) return [];
    if (!areTexts(layers) || !areCounts(loads) || layers.length !== loads.length) return [];
    return [{ firstStep: iteration - (steps as number) + 1, lastStep: iteration, layers, loads }];
  });
}

const formatSteps = ({ firstStep, lastStep }: LoadReport): string => `${firstStep}-${lastStep}`;

const areTexts = (value: unknown): value is readonly string[] =>
  Array.isArray(value) && value.every((each) => typeof each === 'string');

const areCounts = (value: unknown): value is ReadonlyArray<readonly number[]> =>
  Array.isArray(value) && value.every((each) => Array.isArray(each) && each.every(Number.isInteger));

const haveSameExperts = (one: LoadReport, other: LoadReport): boolean =>
  one.layers.join() === other.layers.join() &&
  one.loads.every(({ length }, layer) => length === other.loads[layer]!.length);

/**
 * Counts the changed expert assignments. A token that moves to a different expert removes a row from the old
 * expert and adds a row to the new expert.
 */
function movedChoices(one: LoadReport, other: LoadReport) {
  return one.layers.flatMap((layer, index) => {
    const changes = one.loads[index]!.map((rows, expert) => other.loads[index]![expert]! - rows);
    const sumChanges = (sign: number): number =>
      changes.reduce((sum, change) => sum + Math.max(0, sign * change), 0);
    const numChoices = Math.max(sumChanges(1), sumChanges(-1));
    return numChoices === 0 ? [] : [{ layer, numChoices }];
  });
}
