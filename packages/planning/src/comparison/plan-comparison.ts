import type { PretrainingConfiguration } from '@mtl/configuration';
import { openProfile } from '@mtl/cost-model';
import { ConfigurationError } from '@mtl/errors';
import { operationStatistics } from '@mtl/kernels';
import { communicationAxes, communicationPart } from '@mtl/layout';
import type { GroupsByRole } from '@mtl/optimizer';
import type { OpenComparison, StepComparison } from '@mtl/runs';
import { waitedSeconds } from '@mtl/runs/internal';
import type { StepMetrics } from '@mtl/trainer';
import { medianWithSpread } from '../calibration/measured-points.js';
import { planRun, type RunPlan } from '../plan/plan-run.js';

/**
 * Plans the run of --compare-with-plan, with the calibrated profile of this machine.
 *
 * @throws ConfigurationError `MTL_PROFILE_NAME` without a calibration; `MTL_CALIBRATE_DEVICE` for a run on
 *   GPUs, whose operations cannot be timed on the host
 */
export async function planToCompare(
  configuration: PretrainingConfiguration,
  variables: Readonly<Record<string, string | undefined>>,
): Promise<OpenComparison> {
  const { device } = configuration.parallel;
  if (device !== 'cpu') {
    throw new ConfigurationError('MTL_CALIBRATE_DEVICE', `--compare-with-plan on device ${device}`, {
      expected: '--device cpu: parts of a step are timed on the host, which only starts the work of a GPU',
      remedy: 'leave --compare-with-plan out, and compare the time of a step with the prediction of mtl plan',
    });
  }
  const plan = await planRun(configuration, { profile: openProfile({ variables }) });
  return (options) => new PlanComparison({ plan, ...options });
}

/** The number of steps at the start in which memory is allocated and primitives are created. */
const numWarmUpSteps = 4;
/** The number of steps after which the comparison is printed. */
const numSteadySteps = 10;
/**
 * A kind of work is reported as slower than planned if the difference is at least this fraction of the step.
 */
const leastDifference = 0.02;

/** Seconds of a step on this rank, by kind of work. */
interface StepSeconds {
  readonly matmuls: number;
  readonly attention: number;
  /** Seconds for which the rank waited for other ranks. */
  readonly communication: number;
  /** Seconds of all further kernels, the optimizer, and the host's other work. */
  readonly rest: number;
}

export interface PlanComparisonOptions {
  readonly plan: RunPlan;
  readonly groups: GroupsByRole;
  readonly write: (text: string) => void;
}

/**
 * Compares a run's measured steps with its plan, and names the kinds of work that are slower than planned.
 */
export class PlanComparison implements StepComparison {
  readonly #options: PlanComparisonOptions;
  readonly #steps: StepSeconds[] = [];
  #before: Totals;
  #numSteps = 0;
  #peakBytes = 0;

  constructor(options: PlanComparisonOptions) {
    this.#options = options;
    this.#before = measureTotals(options.groups);
  }

  step({ stepMs, peakBytes, isLeftOut }: StepMetrics): void {
    const now = measureTotals(this.#options.groups);
    const [matmuls, attention, communication] = (['matmuls', 'attention', 'communication'] as const).map(
      (part) => now[part] - this.#before[part],
    ) as [number, number, number];
    this.#before = now;
    this.#peakBytes = peakBytes;
    if (isLeftOut === true) return;
    this.#numSteps += 1;
    if (this.#numSteps <= numWarmUpSteps) return;
    const rest = Math.max(0, stepMs / 1000 - matmuls - attention - communication);
    this.#steps.push({ matmuls, attention, communication, rest });
    if (this.#steps.length === numSteadySteps) this.#options.write(this.text());
  }

  /** Returns a text that compares all steady steps so far with the plan. */
  text(): string {
    if (this.#steps.length === 0) return `plan: no step after the first ${numWarmUpSteps} to compare with it`;
    const { plan } = this.#options;
    const measured = medianParts(this.#steps);
    return comparisonText({
      numSteps: this.#steps.length,
      rows: listRows(measured, plan),
      measuredBytes: this.#peakBytes,
      plannedBytes: Math.max(...plan.ranks.map(({ memoryBytes }) => memoryBytes)),
    });
  }
}

interface Totals {
  readonly matmuls: number;
  readonly attention: number;
  readonly communication: number;
}

/** Returns the seconds that each kind of work has taken since the start of the process. */
function measureTotals(groups: GroupsByRole): Totals {
  let [matmuls, attention] = [0, 0];
  for (const { name, seconds, flops } of operationStatistics()) {
    if (name.includes('attention')) attention += seconds;
    else if (flops > 0) matmuls += seconds;
  }
  return { matmuls, attention, communication: waitedSeconds(groups) };
}

function medianParts(steps: readonly StepSeconds[]): StepSeconds {
  const of = (part: keyof StepSeconds): number => medianWithSpread(steps.map((step) => step[part])).median;
  return {
    matmuls: of('matmuls'),
    attention: of('attention'),
    communication: of('communication'),
    rest: of('rest'),
  };
}

interface ComparedSeconds {
  readonly name: string;
  readonly measured: number;
  readonly planned: number;
}

/**
 * Returns the measured and planned seconds by kind of operation. The stages of a pipeline differ, so for a
 * pipeline, the rows are only the computing time and the waiting time of the first rank.
 */
function listRows(
  measured: StepSeconds,
  { breakdown, simulation, iterationSeconds }: RunPlan,
): ComparedSeconds[] {
  const { bubble } = breakdown;
  const communication = communicationAxes.reduce((sum, axis) => sum + breakdown[communicationPart(axis)], 0);
  if (simulation.ranks.length > 1) {
    const waiting = communication + simulation.ranks[0]!.idle / 1000;
    const computing = measured.matmuls + measured.attention + measured.rest;
    return [
      { name: 'computation', measured: computing, planned: iterationSeconds - waiting },
      { name: 'communication and bubble', measured: measured.communication, planned: waiting },
    ];
  }
  const rest = breakdown.kernels + breakdown.optimizer + breakdown.host;
  return [
    { name: 'matmuls', measured: measured.matmuls, planned: breakdown.matmuls },
    { name: 'attention', measured: measured.attention, planned: breakdown.attention },
    { name: 'other kernels and host', measured: measured.rest, planned: rest },
    { name: 'communication', measured: measured.communication, planned: communication + bubble },
  ].filter((row) => row.measured + row.planned > 0.001 * iterationSeconds);
}

export interface ComparisonTextOptions {
  /** Number of measured steps. */
  readonly numSteps: number;
  readonly rows: readonly ComparedSeconds[];
  readonly measuredBytes: number;
  readonly plannedBytes: number;
}

/** Returns the comparison as lines of text. The times in the rows add up to the time of the step. */
export function comparisonText({
  numSteps,
  rows,
  measuredBytes,
  plannedBytes,
}: ComparisonTextOptions): string {
  const total = (of: 'measured' | 'planned'): number => rows.reduce((sum, row) => sum + row[of], 0);
  const whole = { name: 'step', measured: total('measured'), planned: total('planned') };
  const width = Math.max(...rows.map(({ name }) => name.length)) + 2;
  const line = ({ name, measured, planned }: ComparedSeconds): string =>
    `${name.padEnd(width)}  ${milliseconds(measured)}  planned ${milliseconds(planned)}  ${change(measured, planned)}`;
  const slower = rows
    .filter(({ measured, planned }) => measured - planned > leastDifference * whole.planned)
    .sort((a, b) => b.measured - b.planned - (a.measured - a.planned))
    .map(({ name, measured, planned }) => `${name} (+${milliseconds(measured - planned).trim()})`);
  const mebibytes = (bytes: number): string => `${(bytes / 2 ** 20).toFixed(1)} MiB`;
  return [
    `compared with the plan, medians of ${numSteps} steps:`,
    `  ${line(whole)}`,
    ...rows.map((row) => `    ${line({ ...row, name: row.name.padEnd(width - 2) }).replace(/ {2}$/, '')}`),
    `  memory: at most ${mebibytes(measuredBytes)}, planned ${mebibytes(plannedBytes)}`,
    `  slower than planned: ${slower.join(', ') || `nothing by ${100 * leastDifference} % of the step`}`,
  ].join('\n');
}

const milliseconds = (seconds: number): string => `${(1000 * seconds).toFixed(1)} ms`.padStart(10);

function change(measured: number, planned: number): string {
  if (planned < 1e-6) return '';
  const part = measured / planned - 1;
  return `${part < 0 ? '' : '+'}${(100 * part).toFixed(1)} %`;
}
