import {
  comparisonSvg,
  formatTimeline,
  predictStep,
  readTrace,
  replayStep,
  type Simulation,
  type TracedPipeline,
  timelineLegend,
} from '@mtl/pipeline/schedules';
import { formatTable } from '../../terminal/report-text.js';
import { simulationJson } from './simulation-json.js';

export interface CompareTraceOptions {
  /** The contents of the trace file. */
  readonly text: string;
  readonly name: string;
  /** The time in milliseconds that communication between two ranks takes in the simulation. */
  readonly communication: number;
  /** Width of the terminal in characters. */
  readonly width?: number | undefined;
}

/** The measured steps of a pipeline, and the simulated step. */
interface Comparison {
  readonly pipeline: number;
  readonly steps: readonly Simulation[];
  /** The index of the step with the median time, counted from 0. */
  readonly shown: number;
  readonly measured: Simulation;
  /** The step, simulated with the measured time of each forward and backward pass. */
  readonly replayed: Simulation;
  /** The step, simulated with the median time of each kind of pass (forward or backward) on each chunk. */
  readonly simulated: Simulation;
}

export interface TraceComparison {
  readonly text: string;
  readonly json: Readonly<Record<string, unknown>>;
  /** The timeline of the first pipeline. */
  readonly svg: string;
}

/**
 * Compares the trace of a training run with a simulation of the same schedule.
 *
 * @throws DataError `MTL_TRACE` if `text` is not a trace of a training run
 */
export function compareTrace({ text, name, communication, width }: CompareTraceOptions): TraceComparison {
  const comparisons = readTrace(text, { name }).map((traced) => compare(traced, communication));
  const [first] = comparisons;
  const { measured, simulated, shown, steps } = first!;
  const which =
    steps.length === 1 ? 'its only step' : `step ${shown + 1} of ${steps.length}, whose time is the median`;
  const options = { width, scale: textScale(measured) };
  return {
    text: [
      `measured: pipeline ${first!.pipeline}, ${which}; times in milliseconds\n`,
      formatTimeline(measured, options),
      'simulated: the same schedule with the median times of its passes\n',
      formatTimeline(simulated, options),
      timelineLegend(measured, 'milliseconds'),
      ...comparisons.map(bubbles),
      notes,
    ].join('\n'),
    json: { pipelines: comparisons.map(toJson) },
    svg: comparisonSvg({ measured, simulated }),
  };
}

function compare({ pipeline, steps }: TracedPipeline, communication: number): Comparison {
  const order = steps.map((_, step) => step).sort((a, b) => steps[a]!.makespan - steps[b]!.makespan);
  const shown = order[Math.floor((order.length - 1) / 2)]!;
  const measured = steps[shown]!;
  // all steps are used: a step with a different number of micro-batches has a different schedule, but passes
  // with the same times
  const simulated = predictStep(measured, { samples: steps, communication });
  return { pipeline, steps, shown, measured, replayed: replayStep(measured), simulated };
}

const notes = `The replayed step runs every pass as long as it ran, but without waiting for more than its input to
be made: its bubble is larger than the simulated one where passes of a kind are not equally long,
and smaller than the measured one where ranks wait for communication or do something between passes.
`;

/**
 * Formats the sizes of a pipeline's bubble in the simulations and in the measurement. Their differences show
 * the causes of the bubble.
 */
function bubbles({ pipeline, simulated, replayed, measured }: Comparison): string {
  const say = ({ makespan, bubbleFraction }: Simulation): string =>
    `${makespan.toFixed(1)} ms, bubble ${(100 * bubbleFraction).toFixed(1)} % of the work`;
  const rows = formatTable([
    ['simulated', say(simulated)],
    ['replayed', say(replayed)],
    ['measured', say(measured)],
  ]);
  return `pipeline ${pipeline}\n${rows}`;
}

/**
 * Returns the number of columns per millisecond. The scale is large enough that most passes show their
 * labels, and small enough that a step takes only a few lines of a terminal.
 */
function textScale({ ranks, makespan }: Simulation): number {
  const lengths = ranks.flatMap(({ passes }) => passes.map(({ start, end }) => end - start));
  const short = lengths.sort((a, b) => a - b)[Math.floor(lengths.length / 4)]!;
  // if all times of a trace are 0, any scale is valid
  return makespan === 0 ? 1 : Math.min(5 / short, 480 / makespan);
}

function toJson({ pipeline, steps, shown, measured, replayed, simulated }: Comparison) {
  return {
    pipeline,
    shownStep: shown,
    steps: steps.map(({ makespan, bubbleFraction }) => ({ makespan, bubbleFraction })),
    bubbleFraction: {
      simulated: simulated.bubbleFraction,
      replayed: replayed.bubbleFraction,
      measured: measured.bubbleFraction,
    },
    measured: simulationJson(measured),
    simulated: simulationJson(simulated),
  };
}
