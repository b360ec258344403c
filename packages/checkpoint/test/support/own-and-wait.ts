// Started as a process of its own: owns a directory, prints `owned` or the error's code and remedy, and lives
// until its standard input ends or it is killed.
import { writeSync } from 'node:fs';
import { MtlError } from '@mtl/errors';
import { OwnedDirectory } from '../../src/index.js';

const [directory, job] = process.argv.slice(2);
try {
  await OwnedDirectory.own({ directory: directory!, job });
  writeSync(1, 'owned\n');
  process.stdin.resume();
} catch (error) {
  if (!MtlError.isInstance(error)) throw error;
  writeSync(1, `${error.code}\n`);
}
