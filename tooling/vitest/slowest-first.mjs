import { relative } from 'node:path';
import { BaseSequencer } from 'vitest/node';
import { findSeconds } from './slow-suites.mjs';

/**
 * Starts the slowest suites first, so that no core still runs a slow suite after the other cores have
 * finished.
 */
export class SlowestFirst extends BaseSequencer {
  async sort(files) {
    const seconds = ({ moduleId }) => findSeconds(relative(process.cwd(), moduleId));
    return (await super.sort(files)).toSorted((left, right) => seconds(right) - seconds(left));
  }
}
