import type { Simulation } from '../simulator/simulate-schedule.js';
import { drawTimeline, timeScale } from './draw-timeline.js';
import { svgDocument } from './svg-document.js';

/**
 * A simulated step as an SVG picture in the manner of Narayanan et al. 2021, figures 3 and 4: a row per rank,
 * a box per pass with its micro-batch number, blue forward and green backward, a rank's later chunks in
 * lighter colours, idle time grey; with bubble and memory in the caption.
 */
export function timelineSvg(simulation: Simulation): string {
  return svgDocument([drawTimeline(simulation, { scale: timeScale(simulation) })]);
}
