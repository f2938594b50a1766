/**
 * A process that runs test files in the tree it is started in, and sends what happens to its parent. It takes the Vitest
 * of that tree. MUTATION_JOB is the job as JSON: `config` and `projects` choose the suite; `files` are run one after the
 * other in this order, all of the suite at once without them.
 */
import { createRequire } from 'node:module';
import { join, relative } from 'node:path';
import process from 'node:process';
import { fileURLToPath, pathToFileURL } from 'node:url';

const require = createRequire(join(process.cwd(), 'package.json'));
const { createVitest } = await import(pathToFileURL(require.resolve('vitest/node')).href);
const { config, projects, files, isRecording } = JSON.parse(process.env.MUTATION_JOB);

function send(message) {
  return new Promise((resolve) => process.send(message, resolve));
}

const pathOf = (moduleId) => relative(process.cwd(), moduleId).replaceAll('\\', '/');

function* casesOf(module) {
  for (const test of module.children.allTests()) {
    yield { id: test.id, name: test.fullName, state: test.result().state };
  }
}

const reporter = {
  async onTestCaseResult(test) {
    if (test.result().state !== 'failed') return;
    const { module, project, id, fullName } = test;
    const path = pathOf(module.moduleId);
    await send({ failed: { project: project.name, path, id, name: fullName } });
  },

  async onTestModuleEnd(module) {
    const { project, moduleId } = module;
    const { prepareDuration, setupDuration, collectDuration, duration } = module.diagnostic();
    const ms = Math.round(prepareDuration + setupDuration + collectDuration + duration);
    const tests = [...casesOf(module)];
    const failed = tests.filter(({ state }) => state === 'failed');
    await send({
      ended: {
        project: project.name,
        path: pathOf(moduleId),
        ms,
        passed: tests.filter(({ state }) => state === 'passed').length,
        failed,
        // Hooks and imports: no test fails.
        isBroken: failed.length === 0 && !module.ok(),
      },
    });
  },
};

const vitest = await createVitest('test', {
  root: process.cwd(),
  config,
  project: projects,
  watch: false,
  // Each file loads all modules afresh, so the faults that it reaches don't depend on the files before it.
  isolate: true,
  reporters: [reporter],
  onConsoleLog: () => false,
});
if (isRecording) {
  for (const project of vitest.projects) {
    project.config.env = { ...project.config.env, MUTATION_PROJECT: project.name };
    project.config.setupFiles.unshift(
      fileURLToPath(new URL('record-reached.mjs', import.meta.url)),
    );
  }
}
const specifications = await vitest.globTestSpecifications();

/** Runs some files. Errors outside of tests, such as a worker that has crashed, are those of the last one. */
async function run(chosen) {
  const { unhandledErrors } = await vitest.runTestSpecifications(chosen);
  const errors = unhandledErrors.map((error) => String(error?.message ?? error).slice(0, 300));
  if (errors.length > 0) await send({ errors });
}

await send({ found: specifications.length });
if (files === undefined) await run(specifications);
for (const { project, path, only } of files ?? []) {
  const specification = specifications.find(
    (each) => each.project.name === project && pathOf(each.moduleId) === path,
  );
  if (specification === undefined) throw new Error(`${project} has no file ${path}`);
  await send({ began: { project, path } });
  await run([
    only === undefined
      ? specification
      : specification.project.createSpecification(specification.moduleId, { testIds: [only] }),
  ]);
}
await send({ done: true });
process.exit(0);
