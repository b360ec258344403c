import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Returns the bytes, in base64, of every file of tensors in a checkpoint, by name: for bitwise comparisons.
 */
export function checkpointBytes(checkpoint: string): string[] {
  const files = readdirSync(checkpoint).filter((name) => name.endsWith('.safetensors'));
  if (files.length === 0) throw new Error(`${checkpoint} holds no tensors`);
  return files.sort().map((name) => readFileSync(join(checkpoint, name)).toString('base64'));
}
