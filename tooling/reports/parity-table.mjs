import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

const columns = [
  { name: 'loss', of: ({ loss }) => loss },
  { name: 'norm', of: ({ gradientNorm }) => gradientNorm },
  { name: 'gradients', of: ({ gradients }) => gradients.difference },
];
const schedule = /^(gpipe|1f1b|interleaved|breadth-first|zb-)/;

const describeMesh = ({ sizes }) => {
  const axes = Object.entries(sizes).map(([axis, size]) => `${axis} ${size}`);
  return axes.length === 0 ? 'one process' : axes.join(' x ');
};
/** A pipeline whose layout names no schedule uses 1F1B. */
const nameSchedule = ({ traits }) => traits.find((trait) => schedule.test(trait)) ?? '1f1b';

/** Returns the largest differences in each group of layouts, as a Markdown table. */
function table(results, { title, groupOf }) {
  const groups = groupBy(results, groupOf);
  const head = [
    title,
    'layouts',
    ...['fp32', 'bf16'].flatMap((precision) => columns.map(({ name }) => `${precision} ${name}`)),
  ];
  const rows = [...groups].map(([group, members]) => [
    group,
    String(members.length),
    ...['fp32', 'bf16'].flatMap((precision) => {
      const own = members.filter((each) => each.precision === precision);
      return columns.map(({ of }) => (own.length === 0 ? '' : largest(own.map(of))));
    }),
  ]);
  return [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

function groupBy(values, groupOf) {
  const groups = new Map();
  for (const value of values) groups.set(groupOf(value), [...(groups.get(groupOf(value)) ?? []), value]);
  return groups;
}

const largest = (values) => {
  const value = Math.max(...values);
  return value === 0 ? '0' : value.toExponential(1);
};

/**
 * Writes the results of `npm run dev -- parity --json FILE` as Markdown: a table with a row for each mesh
 * and, for layouts with a pipeline, a table with a row for each schedule. The values are the largest relative
 * differences from a single process, over all steps and all layouts of a row.
 *
 * @throws {Error} if a layout was out of bounds, because a report must not contain such results
 */
export function parityTables(results) {
  const bad = results.filter(({ isGood }) => !isGood).map(({ name }) => name);
  if (bad.length > 0) throw new Error(`out of bounds: ${bad.join('; ')}`);
  const pipelines = results.filter(({ sizes }) => sizes.pp !== undefined);
  const tables = [table(results, { title: 'mesh', groupOf: describeMesh })];
  if (pipelines.length > 0) tables.push(table(pipelines, { title: 'schedule', groupOf: nameSchedule }));
  return tables.join('\n\n');
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const [file] = process.argv.slice(2);
  if (file === undefined) {
    console.error(
      'usage: node tooling/reports/parity-table.mjs FILE, which npm run dev -- parity --json FILE writes',
    );
    process.exitCode = 2;
  } else console.log(parityTables(JSON.parse(readFileSync(file, 'utf8'))));
}
