import { onTestFinished } from 'vitest';
import { temporaryDirectory } from './temporary-directory.js';

/** A directory for the test that is running. */
export function testDirectory(): string {
  const { path, dispose } = temporaryDirectory();
  onTestFinished(dispose);
  return path;
}
