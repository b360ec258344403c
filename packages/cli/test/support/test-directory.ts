import { onTestFinished } from 'vitest';
import { temporaryDirectory } from './temporary-directory.js';

/** Makes a directory for the running test. */
export function testDirectory(): string {
  const { path, dispose } = temporaryDirectory();
  onTestFinished(dispose);
  return path;
}
