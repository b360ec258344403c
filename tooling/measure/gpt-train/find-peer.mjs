import { existsSync } from 'node:fs';

/**
 * Returns the path in MTL_PEER, which must be a script that trains the same model with PyTorch and prints one
 * line of JSON. Returns undefined if MTL_PEER is not set, so that only our program is measured. Ends the
 * program with status 2 if the file does not exist.
 */
export function findPeer({ MTL_PEER: path }) {
  if (path === undefined || existsSync(path)) return path;
  console.error(
    `error[MTL_PEER]: MTL_PEER names ${path}, which is not there\n  remedy: name a script that times PyTorch, or leave MTL_PEER unset to time only our side`,
  );
  return process.exit(2);
}
