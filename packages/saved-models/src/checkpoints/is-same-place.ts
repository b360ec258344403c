import { existsSync, realpathSync } from 'node:fs';
import { resolve } from 'node:path';

/** Whether two paths name the same directory, which need not be there yet. */
export function isSamePlace(one: string | undefined, other: string | undefined): boolean {
  return one !== undefined && other !== undefined && placeOf(one) === placeOf(other);
}

function placeOf(directory: string): string {
  return existsSync(directory) ? realpathSync(directory) : resolve(directory);
}
