import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';

/**
 * Returns the path of a command as a shell would find it, or undefined. Also searches sbin, which contains
 * daemons.
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
