import type { Simulation } from '../simulator/simulate-schedule.js';
import { drawTimeline, timeScale } from './draw-timeline.js';
import { svgDocument } from './svg-document.js';

/** A measured step above the simulated one, in the picture of `timelineSvg` and on one scale of time. */
export function comparisonSvg({
  measured,
  simulated,
}: {
  readonly measured: Simulation;
  readonly simulated: Simulation;
}): string {
  const scale = Math.min(timeScale(measured), timeScale(simulated));
  return svgDocument([
    drawTimeline(measured, { scale, heading: 'measured' }),
    drawTimeline(simulated, { scale, heading: 'simulated' }),
  ]);
}
