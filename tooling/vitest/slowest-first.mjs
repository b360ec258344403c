import { relative } from 'node:path';
import { BaseSequencer } from 'vitest/node';
import { findSeconds } from './slow-suites.mjs';

/**
 * Makes vitest start the slowest suites first. Otherwise, one core might still run a slow suite after the
 * other cores have finished.
 */
export class SlowestFirst extends BaseSequencer {
  async sort(files) {
    const seconds = ({ moduleId }) => findSeconds(relative(process.cwd(), moduleId));
    return (await super.sort(files)).toSorted((left, right) => seconds(right) - seconds(left));
  }
}
