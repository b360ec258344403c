/**
 * Returns packages in the order in which they must be published. Each package comes after all packages of
 * this project on which it depends, so that users never install a package whose dependencies do not exist
 * yet. Platform packages have no dependencies and come first.
 */
export function publishOrder(manifests) {
  const byName = new Map(manifests.map((manifest) => [manifest.name, manifest]));
  const listNeeds = ({ dependencies = {}, optionalDependencies = {} }) =>
    [...Object.keys(optionalDependencies), ...Object.keys(dependencies)].filter((name) => byName.has(name));
  const ordered = [];
  const open = new Set();
  const visit = (name) => {
    if (ordered.includes(name)) return;
    if (open.has(name)) throw new Error(`${name} needs itself`);
    open.add(name);
    for (const needed of listNeeds(byName.get(name))) visit(needed);
    ordered.push(name);
  };
  const isPlatform = ({ os }) => os !== undefined;
  for (const { name } of [...manifests].sort((one, other) => isPlatform(other) - isPlatform(one)))
    visit(name);
  return ordered;
}
