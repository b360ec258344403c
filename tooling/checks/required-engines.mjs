/**
 * Returns the communication engines in `list` that no test has used. `used`: the engines, by the folder whose
 * tests used them. Each line in the list is `folder: engine`. Empty lines and comments are skipped.
 */
export function missingEngines(used, list) {
  const lines = list.split('\n').filter((line) => line.trim() !== '' && !line.startsWith('#'));
  return lines.filter((line) => {
    const [folder, engine, ...rest] = line.split(': ').map((part) => part.trim());
    if (!folder || !engine || rest.length > 0)
      throw new Error(`required engines: "${line}" is not "folder: engine"`);
    return !(used[folder] ?? []).includes(engine);
  });
}
