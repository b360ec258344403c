import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';

/**
 * Returns the path of the command `name` as a shell would find it; undefined if it is not installed. Also
 * searches sbin, which contains daemons.
 *
 * @param {string} name
 * @returns {string | undefined}
 */
export function commandPath(name) {
  const paths = `${process.env.PATH}:/usr/sbin`.split(delimiter).map((folder) => join(folder, name));
  return paths.find((path) => {
    try {
      accessSync(path, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}
