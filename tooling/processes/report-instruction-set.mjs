import { appendFileSync, mkdirSync } from 'node:fs';

/**
 * Records that tests have run the kernels of the instruction set `name` on this processor. `npm test` lists
 * these instruction sets.
 *
 * @param {string} name
 * @returns {void}
 */
export function reportInstructionSet(name) {
  mkdirSync('build', { recursive: true });
  appendFileSync('build/instruction-sets.txt', `${name}\n`);
}
