//! Plans of experiment files, and the errors about wrong ones.

use super::*;

const GOOD: &str = r#"name = "x"
title = "X"
seeds = [3, 4]

[base]
topology = { kind = "mesh", dims = [4, 4] }

[base.routing]
kind = "minimal"

[base.router]
buffer_flits = 16

[base.traffic]
pattern = { kind = "uniform" }

[[sweep]]
name = "protocol"
variant = [
  { label = "none" },
  { label = "limit", value = 5, set = { "endpoint.outstanding_packets" = 5 } },
]

[[sweep]]
name = "slow"
key = "endpoint.slow.share"
values = [0.0, 0.1]

[[sweep]]
key = "endpoint.slow.factor"
values = [2, 8]

[[expect]]
where = { protocol = "limit" }
over = { protocol = "none", best = true }
min = 1.0
reason = "It helps."
"#;

fn read(text: &str) -> Result<Plan, String> {
    let source = Source { name: "x.toml".into(), text: text.to_owned() };
    Plan::read(source, None).map_err(|fault| fault.to_string())
}

fn good() -> Plan {
    read(GOOD).expect("a good file")
}

#[test]
fn cells_are_in_the_order_of_the_axes() {
    let plan = good();
    let names: Vec<String> = (0..plan.cells.len()).map(|cell| plan.cell_name(cell)).collect();
    assert_eq!(names.len(), 8);
    assert_eq!(names[0], "protocol=none, slow=0, endpoint.slow.factor=2");
    assert_eq!(names[1], "protocol=none, slow=0, endpoint.slow.factor=8");
    assert_eq!(names[6], "protocol=limit, slow=0.1, endpoint.slow.factor=2");
    let config = plan.cells[7].setup.network().expect("of a network");
    assert_eq!(config.endpoint.outstanding_packets, Some(5));
    assert_eq!((config.endpoint.slow.share, config.endpoint.slow.factor), (0.1, 8));
    assert_eq!(
        plan.cells[0].setup.network().expect("of a network").endpoint.outstanding_packets,
        None
    );
    assert_eq!(plan.cells[6].marks[0].number, Some(5.0));
}

#[test]
fn points_are_cells_times_seeds_and_share_equal_runs() {
    let plan = good();
    assert_eq!(plan.points.len(), 16);
    assert_eq!((plan.points[0].seed, plan.points[1].seed), (3, 4));
    // Without slow nodes it does not matter how slow they are.
    assert_eq!(plan.points[0].run, plan.points[2].run);
    assert_eq!(plan.runs.len(), 12);
    for point in &plan.points {
        assert_eq!(
            plan.runs[point.run].setup.network().map(|config| config.seed),
            Some(point.seed)
        );
    }
}

#[test]
fn a_first_seed_takes_the_place_of_the_files() {
    let source = Source { name: "x.toml".into(), text: GOOD.to_owned() };
    assert_eq!(Plan::read(source, Some(70)).expect("a good file").seeds, [70, 71]);
}

#[test]
fn a_selection_means_its_cells() {
    let plan = good();
    let expect = &plan.experiment.expect[0];
    assert_eq!(plan.select(&expect.only), [4, 5, 6, 7]);
    let over = expect.over.as_ref().expect("it has one");
    assert!(over.best);
    assert_eq!(plan.select(over), [0, 1, 2, 3]);
}

/// Every kind of fault: what is replaced by what, and what is said.
#[test]
fn faults_name_the_line_the_key_and_the_nearest() {
    let rows = [
        (
            "buffer_flits",
            "buffer_flit",
            "x.toml:12: unknown key \"buffer_flit\" in [base.router]; did you mean \"buffer_flits\"?",
        ),
        (
            "seeds = [3, 4]",
            "seed = [3, 4]",
            "x.toml:3: unknown key \"seed\"; did you mean \"seeds\"?",
        ),
        (
            "kind = \"minimal\"",
            "kind = \"minimum\"",
            "x.toml:9: unknown value \"minimum\" of \"kind\" in [base.routing]; did you mean \"minimal\"?",
        ),
        (
            "dims = [4, 4] ",
            "dim = [4, 4] ",
            "x.toml:6: unknown key \"dim\" in [base.topology]; did you mean \"dims\"?",
        ),
        ("dims = [4, 4] ", "", "x.toml:6: the key \"dims\" is missing in [base.topology]"),
        (
            "buffer_flits = 16",
            "buffer_flits = \"many\"",
            "x.toml:12: \"buffer_flits\" in [base.router]: invalid type: string \"many\", expected u16",
        ),
        (
            "endpoint.slow.share",
            "endpoint.slow.shares",
            "x.toml:26: unknown key \"shares\" in [base.endpoint.slow]; did you mean \"share\"?",
        ),
        (
            "values = [2, 8]",
            "values = [2,\n -8]",
            "x.toml:32: \"factor\" in [base.endpoint.slow]: invalid value: integer `-8`, expected u32",
        ),
        (
            "\"endpoint.outstanding_packets\" = 5",
            "\"endpoint.outstanding\" = 5",
            "x.toml:21: unknown key \"outstanding\" in [base.endpoint]; did you mean \"outstanding_packets\"?",
        ),
        (
            "\"endpoint.outstanding_packets\" = 5",
            "\"router.vcs.many\" = 5",
            "x.toml:21: \"vcs\" in [base.router]: invalid type: map, expected u8",
        ),
        (
            "\"endpoint.outstanding_packets\" = 5",
            "\"router.buffer_flits.many\" = 5",
            "x.toml:21: \"router.buffer_flits.many\" leads through \"buffer_flits\", which is no table in [base]",
        ),
        (
            "where = { protocol = \"limit\" }",
            "where = { protocols = \"limit\" }",
            "x.toml:34: there is no axis \"protocols\"; did you mean \"protocol\"?",
        ),
        (
            "where = { protocol = \"limit\" }",
            "where = { protocol = \"limits\" }",
            "x.toml:34: the axis \"protocol\" has no \"limits\"; did you mean \"limit\"?",
        ),
        (
            "where = { protocol = \"limit\" }",
            "value = \"acepted\"",
            "x.toml:34: there is no column \"acepted\"; did you mean \"accepted\"?",
        ),
        (
            "min = 1.0\n",
            "",
            "x.toml:33: an expectation needs a \"min\", a \"max\" or both in [[expect]]",
        ),
        ("values = [2, 8]", "", "x.toml:29: \"key\" needs \"values\" in [[sweep]]"),
        (
            "name = \"slow\"",
            "name = \"protocol\"",
            "x.toml:24: there are two sweeps of the name \"protocol\"",
        ),
        (
            "[base.routing]",
            "[stop]\nbatch_cycles = 0\n[base.routing]",
            "x.toml:9: \"batch_cycles\" in [stop] must be at least 1",
        ),
        (
            "[base.routing]",
            "[[figure]]\ny = \"hops\"\n[base.routing]",
            "x.toml:8: a figure of lines needs an \"x\" in [[figure]]",
        ),
        ("seeds = [3, 4]", "seeds = []", "x.toml:3: \"seeds\" is empty; at least one is needed"),
        (
            "seeds = [3, 4]",
            "seeds = [3, 4",
            "x.toml:5: missing comma between array elements, expected `,`",
        ),
    ];
    let mut wrong = Vec::new();
    for (old, new, said) in rows {
        assert!(GOOD.contains(old), "{old}");
        let fault = read(&GOOD.replacen(old, new, 1)).expect_err(new);
        wrong.extend((fault != said).then(|| format!("said   {fault}\nwanted {said}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_the_simulator_refuses_has_a_line() {
    let plan = good();
    let refused = |cell, key| {
        plan.fault_of_cell(cell, &sluice_flit::ConfigError::new(key, "no").into()).to_string()
    };
    assert_eq!(
        refused(0, "router.buffer_flits"),
        "x.toml:12: \"router.buffer_flits\" in [base]: no"
    );
    // In the sweep, where the sweep has set it.
    let share = "x.toml:27: \"endpoint.slow.share\" in [base]: no";
    assert_eq!(refused(7, "endpoint.slow.share"), share);
    let limit = "x.toml:21: \"endpoint.outstanding_packets\" in [base]: no";
    assert_eq!(refused(7, "endpoint.outstanding_packets"), limit);
    // Not written at all: as near as can be.
    assert_eq!(refused(0, "router.vcs"), "x.toml:11: \"router.vcs\" in [base]: no");
}

#[test]
fn the_experiments_that_come_with_it_are_sound() {
    for (name, text) in crate::library::EXPERIMENTS {
        let source = Source { name: format!("{name}.toml"), text: (*text).to_owned() };
        let plan = Plan::read(source, None).unwrap_or_else(|fault| panic!("{fault}"));
        assert_eq!(plan.experiment.name, *name);
        assert!(!plan.experiment.expect.is_empty(), "{name} expects nothing");
        assert!(!plan.experiment.figure.is_empty(), "{name} draws nothing");
        for cell in &plan.cells {
            cell.setup.nodes().unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }
}
