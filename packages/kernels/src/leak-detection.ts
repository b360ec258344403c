import { addon } from './native/addon.js';

/**
 * Tensors (views counted) that have not been disposed of: the same before and after code that
 * leaks nothing.
 */
export function numLiveTensors(): number {
  return addon().numLiveTensors();
}

/**
 * Fills the memory of new tensors with NaN, so that a kernel that reads what it should have written is found.
 */
export function setPoison(enabled: boolean): void {
  addon().setPoison(enabled);
}
