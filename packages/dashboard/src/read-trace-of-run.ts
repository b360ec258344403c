import { comparisonSvg, predictStep, readTrace, type Simulation } from '@mtl/pipeline/schedules';
import type { TraceAnswer } from './api-types.js';

/** The profiled steps of a run: times, and a picture for each pipeline. */
export interface TraceOfRun {
  readonly answer: TraceAnswer;
  /**
   * A picture for each pipeline, with the measured step that has the median time above the simulated step.
   */
  readonly pictures: readonly string[];
}

/**
 * Parses a trace that --profile-steps wrote.
 *
 * @throws DataError MTL_TRACE if `text` is not such a trace
 */
export function readTraceOfRun(text: string): TraceOfRun {
  const compared = readTrace(text, { name: 'trace.json' }).map(({ pipeline, steps }) => {
    const ordered = [...steps].sort((a, b) => a.makespan - b.makespan);
    const measured = ordered[Math.floor((ordered.length - 1) / 2)]!;
    const simulated = predictStep(measured, { samples: steps, communication: 0 });
    return { pipeline, numSteps: steps.length, measured, simulated };
  });
  const figures = ({ makespan, bubbleFraction }: Simulation) => ({ makespan, bubbleFraction });
  return {
    answer: {
      pipelines: compared.map(({ pipeline, numSteps, measured, simulated }) => ({
        pipeline,
        numSteps,
        measured: figures(measured),
        simulated: figures(simulated),
      })),
    },
    pictures: compared.map(comparisonSvg),
  };
}
