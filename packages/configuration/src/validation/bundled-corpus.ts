/** What --data-path names the bundled corpus: presets do, and a command line may. */
export const bundledCorpus = 'bundled';
