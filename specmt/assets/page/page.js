// Two panes that translate as one types, documents, and a look inside a translation as it is drafted and verified.

const part = (id) => document.getElementById(id);
const [form, source, target, text, translation] = ["form", "source", "target", "text", "translation"].map(part);
const [status, found, count, copy, look, inside] = ["status", "found", "count", "copy", "look", "inside"].map(part);
const [steps, figures, file, key, doubts, sure] = ["steps", "figures", "file", "key", "doubts", "sure"].map(part);

const PAUSE = 250; // milliseconds without a key before a text is sent
const DOUBTFUL = 0.5; // the raw probability of a word below which it is underlined
const STILL = matchMedia("(prefers-reduced-motion: reduce)").matches;
const pace = STILL ? 0 : 350; // milliseconds that a stage of a step is shown

let languages = [];
let most = -1;
let timer = 0;
let asked = new AbortController();
let watched = new AbortController();

// What is asked, once it is known which languages there are: one may type or choose a file before.
async function values(more) {
  await ready;
  return { source: source.value, target: target.value, ...(key.value ? { api_key: key.value } : {}), ...more };
}

async function send(path, body, signal) {
  const options = body instanceof FormData ? { body } : { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
  const response = await fetch(path, { method: "POST", signal, ...options });
  if (!response.ok) {
    const said = await response.json().catch(() => ({}));
    throw new Error(said.error || `The server answered ${response.status}.`);
  }
  return response;
}

function say(place, message, isFault = false) {
  const span = document.createElement("span");
  span.textContent = message;
  if (isFault) span.className = "fault";
  place.replaceChildren(span);
}

function fail(place, error) {
  if (error.name !== "AbortError") say(place, error.message, true);
}

function nameOf(code) {
  return languages.find((each) => each.code === code)?.name ?? code;
}

// A list of languages, as it is offered.
function fill(select, options, chosen) {
  select.replaceChildren(...options.map(([code, name]) => new Option(name, code, false, code === chosen)));
}

function offerTargets() {
  const from = languages.filter((each) => source.value === "auto" || each.code === source.value);
  const codes = [...new Set(from.flatMap((each) => each.targets.filter((code) => code !== source.value)))].sort();
  fill(target, codes.map((code) => [code, nameOf(code)]), codes.includes(target.value) ? target.value : codes[0]);
}

// Underlines the words that the model was not sure of, and says how sure the whole is.
function tellDoubts(parts, confidence) {
  let any = false;
  const marked = parts.map(([said, probability]) => {
    if (probability === null || probability >= DOUBTFUL) return said;
    const word = document.createElement("u");
    word.textContent = said;
    any = true;
    return word;
  });
  doubts.replaceChildren(...marked);
  const whole = confidence === null ? "" : `Acceptable with a probability of ${percent(confidence)}. `;
  sure.textContent = whole + (any ? `Underlined: words with a raw probability below ${percent(DOUBTFUL)}.` : "");
}

async function translate() {
  asked.abort();
  asked = new AbortController();
  const { signal } = asked;
  const q = text.value;
  count.textContent = [q.length, most].filter((each) => each >= 0).map((each) => each.toLocaleString("en")).join(" / ");
  if (!q.trim()) {
    translation.value = "";
    found.textContent = status.textContent = "";
    tellDoubts([], null);
    return;
  }
  translation.classList.add("old");
  try {
    const started = performance.now();
    const answer = await (await send("translate", await values({ q, confidence: true }), signal)).json();
    translation.value = answer.translatedText;
    tellDoubts(answer.parts, answer.confidence);
    translation.lang = target.value;
    const detected = answer.detectedLanguage;
    found.textContent = detected ? `${nameOf(detected.language)} (${Math.round(detected.confidence)}%)` : "";
    say(status, `${Math.round(performance.now() - started)} ms`);
  } catch (error) {
    fail(status, error);
  } finally {
    if (!signal.aborted) translation.classList.remove("old");
  }
  if (!signal.aborted && !inside.hidden) watch();
}

function soon() {
  clearTimeout(timer);
  timer = setTimeout(translate, PAUSE);
}

function switchLanguages() {
  const from = source.value === "auto" ? languages.find((each) => found.textContent.startsWith(each.name))?.code : source.value;
  const to = target.value;
  if (![...source.options].some((option) => option.value === to)) return;
  source.value = to;
  offerTargets();
  if (from) target.value = from;
  if (translation.value) text.value = translation.value;
  translate();
}

async function upload() {
  const [chosen] = file.files;
  if (!chosen) return;
  const place = part("document");
  say(place, `Translating ${chosen.name} …`);
  try {
    const wanted = await values({ file: chosen });
    const body = new FormData();
    Object.entries(wanted).forEach(([name, value]) => body.append(name, value));
    const { translatedFileUrl } = await (await send("translate_file", body)).json();
    const link = document.createElement("a");
    link.href = new URL(translatedFileUrl).pathname;
    link.download = "";
    link.textContent = `Download ${chosen.name} in ${nameOf(wanted.target)}`;
    place.replaceChildren(link);
  } catch (error) {
    fail(place, error);
  }
  file.value = "";
}

// Server-sent events of a response, one by one.
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const [kind, data] = block.split("\n");
      yield [kind.replace("event: ", ""), JSON.parse(data.replace("data: ", ""))];
    }
  }
}

// A piece as it is read: ▁ is the space before it.
function shown(piece) {
  return piece === "</s>" ? "end" : piece.replace(/^▁(?=.)/, "").replaceAll("▁", "␣");
}

function token(piece, kind, title = "") {
  const span = document.createElement("span");
  span.className = `token ${kind}`;
  span.textContent = shown(piece);
  if (title) span.title = title;
  return span;
}

function percent(share) {
  return share === null ? "" : `${(100 * share).toFixed(share > 0.995 || share < 0.1 ? 1 : 0)}%`;
}

function joined(pieces) {
  return pieces.join("").replaceAll("▁", " ").trim();
}

const wait = (milliseconds, signal) =>
  new Promise((resolve, reject) => {
    const later = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => (clearTimeout(later), reject(new DOMException("", "AbortError"))));
  });

// Shows a step in three stages: empty slots, what is drafted, what becomes of it.
async function show(step, number, signal) {
  const row = document.createElement("li");
  const name = document.createElement("span");
  name.className = "number";
  name.textContent = `${number}`;
  const prefix = document.createElement("span");
  prefix.className = "prefix";
  prefix.textContent = `${joined(step.prefix)} `;
  const drafts = document.createElement("span");
  const attempt = document.createElement("span");
  attempt.className = "attempt";
  attempt.textContent = ["", "held fast ", "between "][step.attempt];
  attempt.title = ["", "again, with numbers and what is copied held fast", "the texts between, each by itself"][step.attempt];
  row.append(name, attempt, prefix, drafts);
  steps.append(row);
  if (pace) {
    drafts.replaceChildren(...step.drafts.map(() => token("\u2003", "slot")));
    row.scrollIntoView({ block: "nearest" });
    await wait(pace, signal);
    drafts.replaceChildren(...step.drafts.map((each) => token(each.token, "")));
    await wait(pace, signal);
  }
  const best = step.choices.map((each) => each.map((one) => `${shown(one.token)} ${percent(one.probability)}`).join(", "));
  let place = 0;
  const judged = step.drafts.map((each) => {
    const title = `${each.verdict}, drafted with ${percent(each.probability)}; the model: ${best[place] ?? "not asked"}`;
    if (each.verdict === "accepted") place += 1;
    return token(each.token, each.verdict, each.verdict === "unseen" ? "" : title);
  });
  const own = step.tokens.filter((each) => each.origin !== "accepted");
  const added = own.map((each) => token(each.token, "own", `the model: ${best[step.tokens.length - 1] ?? ""}`));
  const accepted = step.drafts.filter((each) => each.verdict === "accepted").length;
  drafts.replaceChildren(...judged.slice(0, accepted), ...added, ...judged.slice(accepted));
  row.scrollIntoView({ block: "nearest" });
  await wait(pace, signal);
}

async function watch() {
  watched.abort();
  watched = new AbortController();
  const { signal } = watched;
  steps.replaceChildren();
  figures.textContent = "";
  if (!text.value.trim()) return;
  let [number, tokens, calls] = [0, 0, 0];
  try {
    for await (const [kind, data] of events(await send("look", await values({ q: text.value }), signal))) {
      if (kind === "error") throw new Error(data.error);
      if (kind !== "step") break;
      calls += 1;
      tokens += data.tokens.length;
      await show(data, (number += 1), signal);
    }
    figures.textContent = calls ? `${tokens} tokens in ${calls} steps: ${(tokens / calls).toFixed(1)} a step` : "";
  } catch (error) {
    fail(figures, error);
  }
}

function open() {
  inside.hidden = !inside.hidden;
  look.setAttribute("aria-expanded", String(!inside.hidden));
  if (inside.hidden) watched.abort();
  else watch();
}

async function start() {
  const [known, settings] = await Promise.all(["languages", "frontend/settings"].map(async (path) => (await fetch(path)).json()));
  languages = known;
  most = settings.charLimit;
  part("key-label").hidden = !settings.keyRequired;
  file.accept = settings.supportedFilesFormat.join(",");
  const sources = languages.filter((each) => each.targets.length > 1);
  fill(source, [["auto", "Detect"], ...sources.map((each) => [each.code, each.name])], settings.language.source.code);
  offerTargets();
  target.value = settings.language.target.code;
  translate();
}

translation.addEventListener("scroll", () => (doubts.scrollTop = translation.scrollTop));
text.addEventListener("input", soon);
source.addEventListener("change", () => (offerTargets(), translate()));
target.addEventListener("change", translate);
key.addEventListener("change", translate);
part("switch").addEventListener("click", switchLanguages);
look.addEventListener("click", open);
file.addEventListener("change", upload);
form.addEventListener("submit", (event) => (event.preventDefault(), translate()));
copy.addEventListener("click", async () => {
  translation.select();
  await navigator.clipboard?.writeText(translation.value).catch(() => {});
  say(status, "Copied");
});
document.addEventListener("keydown", (event) => {
  if (event.altKey && event.code === "KeyS") (event.preventDefault(), switchLanguages());
});

const ready = start();
ready.catch((error) => fail(status, error));
