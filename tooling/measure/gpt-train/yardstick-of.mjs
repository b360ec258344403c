import { existsSync } from 'node:fs';

/**
 * The script that trains the same model with PyTorch and prints one line of JSON: what MTL_PEER names, or
 * undefined where it names nothing, and only our side is timed. Ends the program with 2 when there is no such
 * file.
 */
export function findYardstick({ MTL_PEER: path }) {
  if (path === undefined || existsSync(path)) return path;
  console.error(
    `error[MTL_PEER]: MTL_PEER names ${path}, which is not there\n  remedy: name a script that times PyTorch, or leave MTL_PEER unset to time only our side`,
  );
  return process.exit(2);
}
