/** Matches `org/name` or a single name: a model on huggingface.co, not a path. */
const repositoryName = /^(?!\.{1,2}(\/|$))[\w.-]+(\/[\w.-]+)?$/;

/**
 * Returns advice for a missing model directory: the command that downloads the model of that name, since this
 * program downloads nothing, and the directory that the command makes.
 */
export function downloadAdvice(directory: string, flag: string): string {
  if (!repositoryName.test(directory)) return 'check the path; nothing is downloaded';
  const local = directory.split('/').at(-1)!;
  const passed = [flag, local].filter((word) => word !== '').join(' ');
  return (
    `nothing is downloaded here: where it is a model of huggingface.co, run hf download ${directory} --local-dir ${local} ` +
    `(of pip install huggingface_hub), then pass ${passed}`
  );
}
