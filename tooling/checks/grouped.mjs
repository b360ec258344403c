/** As many lines may begin alike before they are told as one. */
const mostAlike = 5;

/**
 * Names of tests (`path: name`) to be read by people: more than a few of one file whose names begin with the
 * same words become one line with their number.
 */
export function grouped(names) {
  const byFile = groupBy(names, fileOf);
  return [...byFile.values()].flatMap((ofFile) => {
    if (ofFile.length <= mostAlike) return ofFile;
    const beginning = commonWords(ofFile);
    return beginning === `${fileOf(ofFile[0])}:` ? ofFile : [`${beginning} ... (${ofFile.length} tests)`];
  });
}

const fileOf = (name) => name.slice(0, name.indexOf(': '));

function groupBy(values, keyOf) {
  const groups = new Map();
  for (const value of values) groups.set(keyOf(value), [...(groups.get(keyOf(value)) ?? []), value]);
  return groups;
}

function commonWords(names) {
  const [first, ...others] = names.map((name) => name.split(' '));
  const isCommon = (word, at) => others.every((other) => other[at] === word);
  const numCommon = first.findIndex((word, at) => !isCommon(word, at));
  return first.slice(0, numCommon < 0 ? first.length : numCommon).join(' ');
}
