// Prints a Markdown table of layouts for the papers' models: the published layouts, and the results of two
// searches. One search covers all layouts that the profile's program supports. The other covers only layouts
// with the published micro-batch size and number of chunks. Usage: npm run dev -- papers-layouts, or npm run
// dev -- papers-layouts TEXT for the models whose names contain TEXT
import {
  type PaperSearch,
  papers,
  searchPaper,
} from '../../../packages/planning/test/support/paper-searches.js';

const [only = ''] = process.argv.slice(2);
const titles = [
  ...['model', 'GPUs', 'published t p d', 'seconds', 'best', 'seconds', 'distance and place'],
  ...['with its micro-batch', 'and its chunks'],
];
const formatDistance = ({ distance, place }: PaperSearch): string =>
  `${(100 * distance).toFixed(1)} %, ${place === 0 ? 'not found' : place}`;

printRow(titles);
printRow(titles.map(() => '---'));
for (const model of papers.filter(({ name }) => name.includes(only))) {
  const search = await searchPaper(model);
  const [{ candidate, plan }] = search.layouts as [(typeof search.layouts)[number]];
  const { tensor, pipeline, data, chunks, microBatch, recomputation } = candidate;
  printRow([
    model.name,
    `${model.numProcesses}`,
    model.mesh.join(' '),
    search.published.toFixed(2),
    `${tensor} ${pipeline} ${data}, v ${chunks}, b ${microBatch}, ${recomputation}`,
    plan.iterationSeconds.toFixed(2),
    formatDistance(search),
    formatDistance(await searchPaper(model, 'micro-batch')),
    formatDistance(await searchPaper(model, 'micro-batch and chunks')),
  ]);
}

function printRow(cells: readonly string[]): void {
  console.log(`| ${cells.join(' | ')} |`);
}
