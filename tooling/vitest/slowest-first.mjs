import { relative } from 'node:path';
import { BaseSequencer } from 'vitest/node';
import { findSeconds } from './slow-suites.mjs';

/**
 * Starts the slow suites first, the slowest before the others: a core is not left alone with one at the end.
 */
export class SlowestFirst extends BaseSequencer {
  async sort(files) {
    const seconds = ({ moduleId }) => findSeconds(relative(process.cwd(), moduleId));
    return (await super.sort(files)).toSorted((left, right) => seconds(right) - seconds(left));
  }
}
